"""Put the page together: templates, style and script from `assets/`, everything else from the result."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined

from ..._version import __version__
from ...benchmarks.result import RunResult
from ...core.errors import InputError
from ...core.files import slug, write_bytes
from ..environment import environment
from ..tables import leaderboard_of
from .explorer import explorer
from .headlines import headlines
from .joint import joint_headlines, joint_notes, joint_views, model_parts, paired_parts
from .page import ID_NAME, Page
from .results import metric_views
from .samples import sample_sections
from .stale import earlier_pages

JOINT = "report.html"


def write_pages(
    result: RunResult,
    folder: str | Path,
    *,
    id_name: str = ID_NAME,
    summary: Sequence[str] = (),
    provenance: Mapping[str, str] | None = None,
    sort: str | None = None,
) -> list[Path]:
    """``report.html``, and one more a model where there are several; each is one self-contained file.

    Where models are joined, the first is the page of all of them. The options are those of `Page`. Pages that
    an earlier run has left in the folder are of other figures: they are removed, and copies of them are not.

    >>> id_test, fog = np.array([2.0, 3.0, 4.0]), np.array([1.0, 2.5])
    >>> result = th.result_of_scores({"mine": {"id_test": id_test, "fog": fog}}, title="Mine")
    >>> [path.name for path in th.write_pages(result, "mine")]
    ['report.html']
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = file_names(result)
    paths = [folder / name for name in names]
    beside = [*names, *([JOINT] if result.joint is not None else [])]
    earlier = earlier_pages(folder)
    for subject, path in zip(result.subject_names, paths, strict=True):
        page = Page(
            result=result,
            subject=subject,
            id_name=id_name,
            summary=summary,
            provenance=provenance or {},
            sort=sort,
            beside=beside,
        )
        write_bytes(path, render(page).encode())
    if result.joint is not None:
        files = dict(zip(result.subject_names, names, strict=True))
        joint = render_joint(result, files, summary=summary, provenance=provenance, sort=sort, beside=beside)
        write_bytes(folder / JOINT, joint.encode())
        paths = [folder / JOINT, *paths]
    for path in earlier:
        if path.name not in beside:
            path.unlink(missing_ok=True)
    return sorted(paths, key=lambda path: path.name != JOINT)


def file_names(result: RunResult) -> list[str]:
    """A file name a model; those that would be called the same, be it by letter case only, are numbered."""
    if len({*result.subjects, *result.subject_names}) == 1:
        return [JOINT]
    taken: dict[str, str] = {}
    alone = result.tabled_subjects if result.repeats and result.joint is None else []
    for subject in result.subject_names:
        # The mean over repeats of an only model is what one looks for first.
        stem = name = "report" if alone == [subject] else f"report-{slug(subject)}"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken[name.casefold()] = f"{name}.html"
    return list(taken.values())


def render(page: Page) -> str:
    """The page of one model as text. The browser is told to run and to load nothing but what is in it."""
    threshold = explorer(page)
    return _rendered(
        "report.html",
        title=page.title,
        notes=page.notes,
        headlines=headlines(page),
        views=metric_views(page),
        board=leaderboard_of(page.result, page.subject),
        paired=[part for part in paired_parts(page.result) if part.subject == page.subject],
        explorer=threshold,
        sections=sample_sections(page),
        command=page.result.command,
        entries={"Provenance": page.origin, "Environment": environment(page.result)},
        beside=page.beside,
        scripts=("page.js",) if threshold is None else ("page.js", "explorer.js"),
    )


def render_joint(
    result: RunResult,
    files: Mapping[str, str] | None = None,
    *,
    summary: Sequence[str] = (),
    provenance: Mapping[str, str] | None = None,
    sort: str | None = None,
    beside: Sequence[str] = (),
) -> str:
    """The page of all models as text; ``files`` are the pages of single subjects that lie beside it.

    ``sort`` and ``beside`` are as in `Page`.
    """
    if result.joint is None:
        raise InputError("the models of this result are not joined: `theodolite.benchmarks.join` does it")
    digests = {
        f"sha256 of {name}, {part}": digest
        for name, facts in result.subjects.items()
        for part, digest in facts.digests.items()
    }
    return _rendered(
        "joint.html",
        title=result.title,
        notes=[*summary, *joint_notes(result)],
        headlines=joint_headlines(result),
        joint=joint_views(result, sort),
        paired=paired_parts(result),
        models=model_parts(result, files or {}, sort),
        explorer=None,
        command=result.command,
        entries={"Provenance": {**(provenance or {}), **digests}, "Environment": environment(result)},
        beside=beside,
        scripts=("page.js",),
    )


def _rendered(template: str, *, scripts: Sequence[str], **content: object) -> str:
    style, script = _asset("report.css"), "".join(_asset(name) for name in scripts)
    return (
        _templates()
        .get_template(template)
        .render(
            **content,
            version=__version__,
            style=style,
            style_digest=_digest(style),
            script=script,
            script_digest=_digest(script),
        )
    )


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # `tojson` leaves no sign in the text that could end the script element it stands in.
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return made


def _asset(name: str) -> str:
    return files("theodolite.report").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
