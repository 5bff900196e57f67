"""The paper's figures from the data at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from command_server import run as command
from synthetic import make_problem
from theodolite.benchmarks.feature_sets import ArraySet
from theodolite.benchmarks.subject import Subject
from theodolite.paper import Context, _figure_registry, items, paper_figures


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


def test_a_figure_is_drawn_from_the_papers_data_where_it_is_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The data at hand is then not looked at, and what was used is said in either case."""
    made = made_subject("resnet18-scl")
    seen: list[tuple[str, str]] = []

    def extracted(pair: tuple[str, str], _: Context) -> Subject:
        seen.append(pair)
        return made

    figure = paper_figures()["fig:sine"]
    (tmp_path / "empty").mkdir()
    context = Context(tmp_path / "empty", tmp_path / "cache")
    assert not figure.drawable(context.root)
    monkeypatch.setattr(_figure_registry, "runs", lambda _pair, _root: True)
    monkeypatch.setattr(_figure_registry, "paper_subject", extracted)
    drawn, source = figure.drawn(context)
    assert seen == [("cifar10", "resnet18-scl")]
    assert list(drawn) == ["figure-sine-resnet18-scl"]
    assert source == "resnet18-scl (the paper's own networks and data)"


def test_a_figure_without_some_of_the_papers_sets_names_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    part = replace(made_subject("resnet18-scl"), missing={"isun": "not here", "svhn": "not here"})
    monkeypatch.setattr(_figure_registry, "runs", lambda _pair, _root: True)
    monkeypatch.setattr(_figure_registry, "paper_subject", lambda _pair, _context: part)
    _, source = paper_figures()["fig:sine"].drawn(Context(tmp_path, tmp_path / "cache"))
    assert source == "resnet18-scl (the paper's own networks, and its data without isun, svhn)"


def test_samples_that_could_not_be_compared_are_said_of_an_ensemble(tmp_path: Path) -> None:
    said: list[str] = []
    context = Context(tmp_path, tmp_path / "cache", say=said.append)
    figure = paper_figures()["fig:model_ensemble_hist"]
    assert list(figure.draw(context, [made_subject("a"), made_subject("b")])) == ["figure-ensemble"]
    for name in ("id_test", "textures"):
        assert f"ensemble: the samples of {name} have no ids, and are matched by place alone" in said


def test_without_the_papers_data_a_figure_says_that_it_is_not_the_papers(
    data_root: Path, tmp_path: Path
) -> None:
    drawn, source = paper_figures()["fig:image-grid_imagenet"].drawn(Context(data_root, tmp_path))
    assert list(drawn) == ["figure-ora-imagenet-lite0"]
    assert source == "imagenet-lite0 (data at hand, not the paper's)"


def test_the_overview_says_no_where_only_other_data_is_here(data_root: Path) -> None:
    item = items()["fig:sine"]
    assert item.figure
    assert any(line.startswith("checkpoint of resnet18-scl") for line in item.missing(data_root))
    assert item.runnable(data_root) == []


def made_subject(name: str) -> Subject:
    problem = make_problem()
    return Subject(
        name,
        problem.head,
        ArraySet(problem.train, problem.labels),
        ArraySet(problem.train[:50]),
        {"textures": ArraySet(problem.train[50:90] + 1)},
    )
