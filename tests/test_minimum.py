"""The declared minimums are those that `make test-minimum` installs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_constraints_are_the_declared_minimums() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = dict(requirement.split(">=") for requirement in project["dependencies"])
    text = (ROOT / "constraints-minimum.txt").read_text(encoding="utf-8")
    installed = dict(re.findall(r"^([\w-]+)==(\S+)$", text, re.MULTILINE))
    assert set(declared) <= set(installed)
    # Its CPU build of that age cannot be had everywhere; the file says so.
    exempt = {"torch"}
    lowest = {name: version for name, version in declared.items() if name not in exempt}
    assert {name: installed[name] for name in lowest} == {
        name: version + ".0" * (2 - version.count(".")) for name, version in lowest.items()
    }
