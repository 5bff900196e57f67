"""The README: its table is what `results/` holds, its links lead somewhere, its picture is small."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
# The columns of the table: which result, which OOD set.
COLUMNS = (
    ("cifar10-densenet", "svhn"),
    ("cifar10-densenet", "textures"),
    ("imagenet-lite0", "textures"),
    ("imagenet-resnet50", "textures"),
)


def rows(page: str) -> dict[str, list[str]]:
    """The table of scores by label; the mark of the recommended one is no part of it."""
    found = {}
    for line in page.splitlines():
        label, *cells = [part.strip() for part in line.strip("|").split("|")]
        if cells and all(re.fullmatch(r"[\d.]+ / [\d.]+", cell) for cell in cells):
            found[label.removesuffix(" (recommended)")] = cells
    return found


@pytest.mark.parametrize(("page", "least"), [(README, 9), (TOUR, 14)])
def test_the_table_is_what_the_results_hold(page: str, least: int) -> None:
    measured = {}
    for name in {name for name, _ in COLUMNS}:
        content = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
        for cell in content["cells"]:
            measured[name, cell["ood"], cell["entry"]] = f"{cell['fpr95']:.1f} / {cell['auroc']:.1f}"
    table = rows(page)
    assert len(table) >= least
    assert {"ORA", "Relative Energy", "MSP"} <= set(table)
    for label, cells in table.items():
        assert cells == [measured[name, ood, label] for name, ood in COLUMNS], label
    width = len(COLUMNS) + 1
    (head,) = [line for line in page.splitlines() if line.startswith("| score |")]
    assert len(head.strip("|").split("|")) == width


@pytest.mark.parametrize(("page", "folder"), [(README, ROOT), (TOUR, ROOT / "docs")])
def test_links_and_pictures_lead_somewhere(page: str, folder: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page)
    assert len(links) > 5
    for link in links:
        assert (folder / link).exists(), link


def test_the_commands_and_the_picture_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert f"\n{target}:" in makefile
    first = re.search(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert first
    for name in (first[1], "docs/images/report.png"):
        path = ROOT / name
        assert path.stat().st_size <= 200_000
        with Image.open(path) as picture:
            assert picture.width >= 1_000
    assert len(README.splitlines()) < 130, "two minutes"
