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
from ...core.files import slug, write_bytes
from ..environment import environment
from ..tables import leaderboard_of
from .explorer import explorer
from .headlines import headlines
from .page import ID_NAME, Page
from .results import metric_views
from .samples import sample_sections


def write_pages(
    result: RunResult,
    folder: str | Path,
    *,
    id_name: str = ID_NAME,
    summary: Sequence[str] = (),
    provenance: Mapping[str, str] | None = None,
) -> list[Path]:
    """``report.html``, or one a model where there are several; each is one self-contained file.

    The options are those of `Page`.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / name for name in file_names(result)]
    for subject, path in zip(result.subject_names, paths, strict=True):
        page = Page(
            result=result,
            subject=subject,
            id_name=id_name,
            summary=summary,
            provenance=provenance or {},
        )
        write_bytes(path, render(page).encode())
    return paths


def file_names(result: RunResult) -> list[str]:
    """A file name a model; those that would be called the same, be it by letter case only, are numbered."""
    if len({*result.subjects, *result.subject_names}) == 1:
        return ["report.html"]
    taken: dict[str, str] = {}
    for subject in result.subject_names:
        stem = name = f"report-{slug(subject)}"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}-{number}"
        taken[name.casefold()] = f"{name}.html"
    return list(taken.values())


def render(page: Page) -> str:
    """The page as text. The browser is told to run and to load nothing but what is in it."""
    threshold = explorer(page)
    style = _asset("report.css")
    script = _asset("page.js") + ("" if threshold is None else _asset("explorer.js"))
    template = _templates().get_template("report.html")
    return template.render(
        title=page.title,
        notes=page.notes,
        headlines=headlines(page),
        views=metric_views(page),
        board=leaderboard_of(page.result, page.subject),
        explorer=threshold,
        sections=sample_sections(page),
        command=page.result.command,
        entries={"Provenance": page.origin, "Environment": environment(page.result)},
        version=__version__,
        style=style,
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
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
