"""Every block of README and docs: Python is run, page by page; every `theodolite …` is parsed, many are run.

A page happens in a folder with the files of `docs_world.make_world`, its blocks in one namespace from top to
bottom, and its commands in another such folder. What cannot run is named below with its reason.
"""

from __future__ import annotations

import re
import shutil
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

import theodolite as th
from docs_pages import COMMAND, PYTHON, ROOT, Block, blocks_of, pages
from docs_world import Names, common_names, make_world, stood_in
from theodolite.cli.app import app
from theodolite.features.asking import input_gradient

# Blocks of Python that are not run here: the page, words that only this block has, and why.
NOT_RUN = {
    ("README.md", "import onnxruntime"): "run by tests/guard/test_export_docs.py",
    ("docs/benchmarks.md", 'th.bench("imagenet"'): "needs ImageNet and two of its networks",
    ("docs/explain.md", "th.Explainer(guard"): "run by tests/report/test_docs.py",
    (
        "docs/export.md",
        'load_exported("guard.onnx")',
    ): "needs a graph with a model in it: tests/guard/test_export*.py",
    ("docs/report.md", "highlight=Highlight()"): "run by tests/report/test_docs.py",
    ("docs/report.md", "result_of_scores("): "run by tests/report/test_docs.py",
    ("docs/report.md", "telling_samples("): "run by tests/report/test_docs.py",
    ("docs/report.md", "score_histograms("): "run by tests/report/test_docs.py",
    ("docs/scale.md", 'th.RayEngine("auto"'): "needs a Ray cluster: tests/guard/test_ray.py",
    ("docs/scale.md", "s3://"): "needs a Ray cluster and a bucket: tests/guard/test_ray.py",
    ("docs/serving.md", "judging_of"): "serves until it is stopped: tests/serve",
    ("docs/serving.md", "mlflow"): "run by tests/guard/test_mlflow.py",
    ("docs/serving.md", "ActorPoolStrategy"): "needs Ray: tests/guard/test_ray.py",
    ("docs/serving.md", "mapInPandas"): "run by tests/guard/test_spark.py",
    ("docs/training.md", "train_classifier("): "trains for 50 epochs: tests/training",
}
# Commands that are parsed and not run: a pattern, and why.
PARSED_ONLY = {
    r"…|\$|\bMODEL\b": "an abbreviation",
    r"\bserve\b": "serves until it is stopped",
    r"theodolite (demo|train)": "trains a network",
    r"--engine ray": "needs a Ray cluster",
    r"hf-text:|openclip:|hf:": "weights of the hub",
    r"python:|--import": "code of the reader's own",
    r"imagenet-lite0|oe:mnist|resnet18-scl|reproduce \w": "real weights or data",
    r"bench (imagenet|mnist|cifar10|openood|clinc150)": "real data",
    r"bench --(id|model)": "as `bench features:`, of pictures or of several folders: tests/cli/test_bench.py",
    r"\bexport\b|guard\.(onnx|pt2)": "a graph takes seconds each: tests/guard/test_export*.py",
    r"parts/\*|part-\*|look-": "the parts are of a cluster's jobs: tests/guard/test_parts.py",
    r"--no-head|--classes|probe\.safetensors|held-out-store": "needs an encoder or a probe: tests/features",
    r"monitor|-o -": "needs a day's scores: tests/cli/test_monitor.py",
    r"--layer|--detector odin": "asks more of the model than features: tests/guard/test_layers.py",
    r"bench features:(?!.*--detector)": "all scores take long: tests/cli/test_bench.py",
    r"embeddings\.parquet|questions\.csv|--weights|cifar10/|--ranking": "files of the reader's own",
}


def _tour(names: Names) -> None:
    ora = th.ORA().fit(names["train_features"], head=names["head"])
    names.update(ora_of_model_a=ora, ora_of_model_b=ora)
    names.update(features_a=names["features"], features_b=names["features"])
    names.update(part_1=names["features"][:100], part_2=names["features"][100:])


def _benchmarks(names: Names) -> None:
    rows = names["features"]
    names.update(train=rows, test=rows[:60], fog=torch.rand(60, rows.shape[1]))


def _data(names: Names) -> None:  # noqa: ARG001
    Path("lists").mkdir()
    Path("data").mkdir()
    shutil.copy("photo.jpg", "data/photo.jpg")
    Path("lists/test.txt").write_text("photo.jpg 0\n", encoding="utf-8")


def _features(names: Names) -> None:  # noqa: ARG001
    pyarrow = pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pip install 'theodolite[parquet]'")
    rows = torch.rand(240, 16).tolist()
    parquet.write_table(pyarrow.table({"features": rows}), "embeddings.parquet")


def _guard(names: Names) -> None:
    own = import_module("my_module")
    model = own.factory()[0]
    capture = th.Capture(model)
    known, others = capture.over(names["train_loader"]), capture.over(names["val_loader"])
    other = th.Guard.fit(known, head=capture.head, calibration=others)
    other.attach(model, preprocess=own.preprocess, spec="python:my_module:factory", weights="model.pt")
    names.update(model=model, preprocess=own.preprocess, other=other, other_features=names["features"])
    names.update(guard_a=th.Guard.load("guard-a.safetensors"), guard_b=th.Guard.load("guard-b.safetensors"))
    names.update(val_a=names["val_features"], val_b=names["val_features"])
    names.update(new_a=names["new_features"], new_b=names["new_features"])


def _model_scores(names: Names) -> None:
    names.update(
        {name: getattr(th, name) for name in ("Detector", "MultiLayer", "Needs", "ODIN", "register")}
    )
    names.update(Capture=th.Capture, Guard=th.Guard, input_gradient=input_gradient)
    names.update(loader=names["train_loader"], others=names["val_loader"])


def _monitor(names: Names) -> None:
    names["batches"] = names["new_features"].split(2)


def _scale(names: Names) -> None:
    for number in (*range(1, 3), *range(4, 17)):
        part = th.collect(
            "train/", "timm:resnet50", detectors=["ora"], settings=th.ExtractionSettings(part=f"{number}/16")
        )
        part.save(f"parts/{number}.safetensors")
    names["paths"] = ["reference-3.safetensors"]


def _text(names: Names) -> None:
    class Classifier(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.fc = torch.nn.Embedding(64, 8), torch.nn.Linear(8, 3)

        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.fc(self.words(input_ids).mean(dim=1))
            return logits

    def tokenizer(texts: list[str], **_: object) -> dict[str, torch.Tensor]:
        return {"input_ids": torch.tensor([[len(word) for word in text.split()] for text in texts])}

    texts = ["a short text", "another short one"]
    batches = [
        {"input_ids": torch.randint(64, (60, 3), generator=torch.Generator().manual_seed(n))} for n in (0, 1)
    ]
    names.update(classifier=Classifier().eval(), tokenizer=tokenizer, texts=texts, LoadedModel=th.LoadedModel)
    names.update(loader=batches[:1], held_out=batches[1:])


def _which_score(names: Names) -> None:
    names["fog"] = "fog.npy"


SETUPS = {
    "docs/benchmarks.md": _benchmarks,
    "docs/data.md": _data,
    "docs/features.md": _features,
    "docs/guard.md": _guard,
    "docs/model-scores.md": _model_scores,
    "docs/monitor.md": _monitor,
    "docs/scale.md": _scale,
    "docs/text.md": _text,
    "docs/tour.md": _tour,
    "docs/which-score.md": _which_score,
}
BLOCKS = {page: blocks_of(page) for page in pages()}


def reason(block: Block) -> str | None:
    """Why a block is not run."""
    if block.kind == PYTHON:
        return next(
            (why for (page, words), why in NOT_RUN.items() if page == block.page and words in block.text),
            None,
        )
    return next((why for pattern, why in PARSED_ONLY.items() if re.search(pattern, block.text)), None)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch, stood_in(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(folder)
        patch.delenv("THEODOLITE_DATA", raising=False)  # a reader has none of it
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        make_world(folder)
        yield folder


def run_command(block: Block) -> None:
    done = CliRunner().invoke(app, block.words)
    told = {0, 3} if "--fail-on" in block.text else {0}  # 3: what it looks for was found
    assert done.exit_code in told, f"{block.place}: {block.text}\n{done.output}\n{done.exception!r}"


@pytest.mark.parametrize("page", [page for page, blocks in BLOCKS.items() if blocks])
def test_the_blocks_of_a_page_run(
    page: str, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [block for block in BLOCKS[page] if reason(block) is None]
    if not runs:
        return
    with stood_in(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if any(block.kind == COMMAND for block in runs):
            shutil.copytree(world, tmp_path / "commands", symlinks=True)
            monkeypatch.chdir(tmp_path / "commands")
            for block in runs:
                if block.kind == COMMAND:
                    run_command(block)
        if any(block.kind == PYTHON for block in runs):
            shutil.copytree(world, tmp_path / "python", symlinks=True)
            monkeypatch.chdir(tmp_path / "python")
            monkeypatch.syspath_prepend(tmp_path / "python")
            run_python(page, [block for block in runs if block.kind == PYTHON])


def run_python(page: str, blocks: list[Block]) -> None:
    names = common_names()
    SETUPS.get(page, lambda _: None)(names)
    for block in blocks:
        try:
            exec(compile(block.text, block.place, "exec"), names)
        except Exception as error:
            error.add_note(f"in the block at {block.place}")
            raise


def test_the_commands_of_all_pages_are_those_there_are() -> None:
    """All options exist, and what must be given is given."""
    group = typer.main.get_command(app)
    commands = [block for blocks in BLOCKS.values() for block in blocks if block.kind == COMMAND]
    assert len(commands) > 50
    for block in commands:
        parse(group, block)


def parse(group: Any, block: Block) -> None:
    """Without running it. The parser is click's, or the copy of it that newer versions of typer have."""
    words = [*block.words]
    for place, word in enumerate(words):
        if word == "…" and place and words[place - 1].startswith("-"):
            words[place] = "x"
    try:
        outer = group.make_context("theodolite", [word for word in words if word != "…"])
        name, command, rest = group.resolve_command(outer, [*outer._protected_args, *outer.args])
        command.make_context(name, rest, parent=outer)
    except Exception as error:
        if type(error).__name__ == "MissingParameter" and "…" in block.text:
            return
        error.add_note(f"{block.place}: {block.text}")
        raise


def test_what_is_not_run_is_still_there() -> None:
    blocks = [block for found in BLOCKS.values() for block in found]
    gone = [
        (page, words)
        for page, words in NOT_RUN
        if sum(block.kind == PYTHON and words in block.text for block in BLOCKS.get(page, [])) != 1
    ]
    assert gone == [], "no block of the page has these words, or more than one"
    commands = [block.text for block in blocks if block.kind == COMMAND]
    assert [
        pattern for pattern in PARSED_ONLY if not any(re.search(pattern, text) for text in commands)
    ] == []
    for why in NOT_RUN.values():
        for path in re.findall(r"tests/[\w/]+\.py", why):
            assert (ROOT / path).is_file(), path


def test_pages_have_blocks_of_every_kind() -> None:
    """The reader of pages has found what is known to be there."""
    texts = {block.text for block in BLOCKS["docs/monitor.md"] if block.kind == COMMAND}
    assert "theodolite monitor guard.safetensors -" in texts, "behind a pipe"
    (long,) = [block for block in BLOCKS["docs/text.md"] if "--detector rmds" in block.text]
    assert long.words[-1] == "guard.safetensors", "over two lines"
    assert sum(block.kind == PYTHON for block in BLOCKS["docs/tour.md"]) >= 3
