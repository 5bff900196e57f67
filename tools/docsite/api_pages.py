"""The reference of every public name, from the code: its signature, its docstring, and its members'."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import theodolite as th

from .docstrings import prose, summary, to_markdown
from .score_pages import all_records, page_of
from .settings import Entry

TITLES = {
    "guard": "Guards",
    "detectors": "Detectors",
    "scores": "Scores",
    "detectors.shaping": "Shapings",
    "reference": "Heads and references",
    "features": "Features",
    "models": "Models",
    "data": "Data",
    "evaluation": "Metrics",
    "benchmarks": "Benchmarks",
    "report": "Reports and files",
    "core.errors": "Errors",
}
# Longer signatures are written with a parameter a line.
_WIDTH = 88


def public_names() -> dict[str, list[str]]:
    """Every public name, by the page that it stands on."""
    scores = {record.detector.__name__ for record in all_records()}
    found: dict[str, list[str]] = {home: [] for home in TITLES}
    for name in th.__all__:  # type: ignore[attr-defined]
        if name == "__version__":
            continue
        home = th._HOME_OF.get(name, "scores" if name in scores else "detectors")
        found["report" if home.startswith("report.") else home].append(name)
    return found


def api_entries() -> list[Entry]:
    """The pages in the navigation."""
    return [("All names", "api/index.md"), *((title, _file(home)) for home, title in TITLES.items())]


def api_pages() -> dict[str, str]:
    """A page a room, and one of all names."""
    names = public_names()
    pages = {_file(home): _page(TITLES[home], entries) for home, entries in names.items()}
    rows = [
        f"| [`{name}`]({_file(home).removeprefix('api/')}#{name.lower()}) | {_first(name)} |"
        for home, entries in names.items()
        for name in entries
    ]
    head = [
        "# All names",
        "",
        "Every name of `import theodolite as th`; `th.__version__` is the version.",
        "",
    ]
    pages["api/index.md"] = "\n".join([*head, "| name | |", "|---|---|", *sorted(rows)]) + "\n"
    return pages


def _file(home: str) -> str:
    return f"api/{home.replace('.', '-')}.md"


def _first(name: str) -> str:
    thing = getattr(th, name)
    record = vars(thing).get("record") if inspect.isclass(thing) else None
    if record is not None:
        return f"{record.title}: {prose(record.formula)}".replace("|", "\\|")
    return (summary(thing.__doc__) if callable(thing) else f"`{thing!r}`").replace("|", "\\|")


def _page(title: str, names: list[str]) -> str:
    parts = [f"# {title}", *(part for name in names for part in _entry(name))]
    return "\n\n".join(parts) + "\n"


def _entry(name: str) -> Iterator[str]:
    thing = getattr(th, name)
    yield f"## {name} {{ #{name.lower()} }}"
    if not callable(thing):
        yield f"```python\nth.{name} == {thing!r}\n```"
        return
    yield signature(thing, f"th.{name}")
    yield to_markdown(thing.__doc__ or "", _parameters(thing))
    record = vars(thing).get("record") if inspect.isclass(thing) else None
    if record is not None:
        yield f"Formula, needs, figures and paper: [{record.title}](../{page_of(record.name)})."
    if inspect.isclass(thing) and record is None:
        for member in _members(thing):
            yield from _member(thing, name, member)


def _members(thing: type) -> list[str]:
    """Its own, and those of what it is made of where that has no entry here."""
    public = set(th.__all__) - {thing.__name__}  # type: ignore[attr-defined]
    made_of = [
        kind
        for kind in thing.__mro__
        if kind.__module__.startswith("theodolite") and kind.__name__ not in public
    ]
    return sorted({member for kind in made_of for member in vars(kind) if not member.startswith("_")})


def _member(owner: type, name: str, member: str) -> Iterator[str]:
    """A method or property that has a docstring; plain values are in the signature."""
    found = inspect.getattr_static(owner, member)
    heading = f"### {name}.{member} {{ #{name.lower()}.{member} }}"
    if isinstance(found, property) and found.__doc__:
        yield heading
        yield to_markdown(found.__doc__)
    elif isinstance(found, classmethod | staticmethod) or inspect.isfunction(found):
        call = getattr(owner, member)
        if call.__doc__:
            yield heading
            yield signature(call, f"{name}.{member}")
            yield to_markdown(call.__doc__, _parameters(call))


def _parameters(thing: Callable[..., object]) -> list[str]:
    """The names of what it takes; a type of errors has no signature that Python could tell."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return []
    return list(inspect.signature(thing).parameters)


def signature(thing: Callable[..., object], name: str) -> str:
    """As one would write it, in a block of code."""
    if not _parameters(thing):
        return f"```python\n{name}{'' if inspect.isclass(thing) else '()'}\n```"
    found = inspect.signature(thing)
    parameters = list(_written(found))
    returned = "" if inspect.isclass(thing) else _returned(found)
    line = f"{name}({', '.join(parameters)}){returned}"
    if len(line) > _WIDTH:
        line = "\n".join([f"{name}(", *(f"    {each}," for each in parameters), f"){returned}"])
    return f"```python\n{line}\n```"


def _written(found: inspect.Signature) -> Iterator[str]:
    """The parameters; a star stands where those begin that can only be named."""
    named = False
    for each in found.parameters.values():
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not named:
            yield "*"
        named |= each.kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        if each.name == "self":
            continue
        star = "*" * (each.kind is inspect.Parameter.VAR_POSITIONAL)
        told = star + "**" * (each.kind is inspect.Parameter.VAR_KEYWORD) + each.name
        if each.annotation is not inspect.Parameter.empty:
            told += f": {_annotation(each.annotation)}"
        if each.default is not inspect.Parameter.empty:
            told += f" = {_default(each.default)}"
        yield told


def _returned(found: inspect.Signature) -> str:
    if found.return_annotation is inspect.Signature.empty:
        return ""
    return f" -> {_annotation(found.return_annotation)}"


def _annotation(annotation: object) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(value: object) -> str:
    """A value as it is written; what is made at run time has no such form."""
    told = repr(value)
    return "…" if " at 0x" in told or told.startswith("<") else told
