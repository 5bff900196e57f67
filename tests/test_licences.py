"""LICENSES-DATA.md lists every picture, package and data folder that is used."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from theodolite.demo import photos, pictures

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def listed() -> set[str]:
    text = (ROOT / "LICENSES-DATA.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return {word for line in rows for word in re.split(r"[^\w.-]+", line)}


def test_every_picture_of_the_demo_has_a_line(listed: set[str]) -> None:
    assert {*photos._PICTURES, *pictures._TEXTURES, *pictures._PHOTOS} <= listed


def test_every_package_of_the_demo_has_a_line(listed: set[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packages = {re.split("[>=]", need)[0] for need in project["optional-dependencies"]["demo"]}
    assert packages <= listed


def test_every_folder_of_real_data_has_a_line(listed: set[str], data_root: Path) -> None:
    assert {path.name for path in data_root.iterdir() if path.is_dir()} <= listed


def test_the_readme_links_it() -> None:
    assert "](LICENSES-DATA.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
