"""The paper's figures from the data at hand."""

from __future__ import annotations

from pathlib import Path

from command_server import run as command
from theodolite.paper import items, paper_figures


def test_every_figure_of_the_paper_can_be_drawn() -> None:
    figures = paper_figures()
    assert {name for name in items() if name.startswith("fig:")} == set(figures)
    assert all(figure.needs for figure in figures.values())


def test_reproduce_draws_the_triangles(data_root: Path, tmp_path: Path) -> None:
    shown = command(
        "reproduce", "fig:teaser", "--root", data_root, "--cache", tmp_path / "cache", "-o", tmp_path / "out"
    )
    assert shown.code == 0, shown.err
    for suffix in (".png", ".svg"):
        assert (tmp_path / "out" / f"figure-triangles{suffix}").stat().st_size > 10_000
    drawing = (tmp_path / "out" / "figure-triangles.svg").read_text(encoding="utf-8")
    for title in ("ID: class", "svhn: class", "textures: class"):
        assert f"<!-- {title}" in drawing
    assert "figure-triangles.png" in shown.out.replace("\n", "")
