"""The linear-probe rows of the paper's CLIP table: from an open_clip model to every score, on a tiny one."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from made_folders import make_folder
from theodolite import published
from theodolite.benchmarks import compare
from theodolite.benchmarks.compare import published_beside
from theodolite.benchmarks.feature_folder import from_folder
from theodolite.benchmarks.protocols import own_protocol
from theodolite.benchmarks.subject import LINEAR_PROBE
from theodolite.core.compat import import_torchvision
from theodolite.detectors.spec import parse_spec
from theodolite.evaluation import head_accuracy
from theodolite.models.cards import ModelCard
from theodolite.paper import Context, items, run_item
from theodolite.paper.items import Item
from theodolite.paper.probes import wants_probe
from theodolite.paper.studies import RunStudy
from theodolite.reference.head import Head

CONFIG = {
    "model_cfg": {
        "embed_dim": 16,
        "vision_cfg": {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16, "head_width": 32},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    },
    "preprocess_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
}


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    import_torchvision()
    open_clip = pytest.importorskip("open_clip", reason="pip install 'theodolite[clip]'")
    folder = tmp_path / "clip"
    folder.mkdir()
    (folder / "open_clip_config.json").write_text(json.dumps(CONFIG))
    torch.manual_seed(0)
    made = open_clip.create_model(f"local-dir:{folder}", load_weights=False)
    weights = {key: value.clone() for key, value in made.state_dict().items()}
    save_file(weights, folder / "open_clip_model.safetensors")
    return folder


def pictures(folder: Path) -> None:
    """Colours are classes; OOD pictures are noise."""
    rng = np.random.default_rng(0)
    for name, count in (("fit", 240), ("test", 90)):
        labels = np.arange(count) % 3
        images = rng.integers(0, 60, (count, 32, 32, 3), dtype=np.uint8)
        images[np.arange(count), :, :, labels] += 150
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
    np.savez(folder / "far.npz", images=rng.integers(0, 256, (40, 32, 32, 3), dtype=np.uint8))


def test_zero_shot_and_probe_side_by_side(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures(tmp_path)
    own = own_protocol(
        test=str(tmp_path / "test.npz"), fit=str(tmp_path / "fit.npz"), ood={"far": str(tmp_path / "far.npz")}
    )
    spec = f"openclip:{clip}?classes=red,green,blue"
    card = ModelCard(spec, spec, 16, 32, published="clip-h14")
    table = replace(published.load_table("clip"), protocol=own.name)
    module = import_module("theodolite.paper.presence")
    monkeypatch.setattr(import_module("theodolite.paper.items"), "protocol", lambda _: own)
    monkeypatch.setattr(module, "protocol", lambda _: own)
    monkeypatch.setattr(module, "find_backbone", lambda _: card)
    monkeypatch.setattr(module, "_id_and_some_ood", lambda *_: True)  # which is known of named data sets
    monkeypatch.setattr(published, "load_table", lambda _: table)
    monkeypatch.setattr("theodolite.paper.probes.train_probe", quick := _Quick())
    # A random CLIP knows no colours: only the probe is a classifier.
    monkeypatch.setattr("theodolite.benchmarks.runner.require_belonging", lambda *_, **__: None)
    item = Item("clip", "CLIP", None, ((own.name, "clip-h14"),), ())
    context = Context(tmp_path, tmp_path / "cache")

    (study,) = run_item(item, context).values()
    assert isinstance(study, RunStudy)
    zero_shot, probe = study.result.subject_names
    assert (zero_shot, probe) == (spec, f"{spec} (linear probe)")
    wanted = {parse_spec(str(cell.detector)).record.title for cell in table.cells()}
    for name in (zero_shot, probe):
        found = {*study.result.detector_names(name), *study.result.refused.get(name, {})}
        assert {title.split(" ")[0] for title in found} >= {title.split(" ")[0] for title in wanted}
    facts = study.result.subjects
    assert facts[zero_shot].digests["id_fit"] == facts[probe].digests["id_fit"]
    assert facts[zero_shot].digests["head"] != facts[probe].digests["head"]
    assert (facts[probe].accuracy or 0) > 95

    assert quick.times == 1
    (again,) = run_item(item, context).values()
    assert quick.times == 1, "the probe is kept"
    assert isinstance(again, RunStudy)
    assert again.result.cells == study.result.cells


class _Quick:
    """The probe with a rate that suits a tiny network, counted."""

    times = 0

    def __call__(self, store: object, **options: object) -> Head:
        from theodolite.features.linear_probe import train_probe

        self.times += 1
        return train_probe(store, **{**options, "learning_rate": 0.1})  # type: ignore[arg-type]


def test_the_rows_of_the_paper_are_told_apart_by_their_head(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_MAY_LACK", 1.0)
    about = {"protocol": "imagenet", "backbone": "clip-h14"}
    linear = from_folder(make_folder(tmp_path / "f", about=about))
    zero_shot = replace(linear, head=Head.cosine(linear.head.weight))
    probe = replace(linear, head_kind=LINEAR_PROBE)

    def printed(subject: object, score: str) -> list[str]:
        found = published_beside(subject, parse_spec(score), "textures", "fpr95")  # type: ignore[arg-type]
        return [value.printed for value in found]

    assert printed(probe, "msp") == ["40.87"]
    assert printed(zero_shot, "mcm") == ["41.12"]
    assert printed(probe, "mcm") == printed(zero_shot, "msp") == printed(linear, "msp") == []
    assert head_accuracy(probe.head, probe.test) is not None


def test_only_the_clip_table_wants_a_probe() -> None:
    wanting = {
        name
        for name, item in items().items()
        for protocol, backbone in item.pairs
        if wants_probe(name, protocol, backbone)
    }
    assert wanting == {"clip"}
