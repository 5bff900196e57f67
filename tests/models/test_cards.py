"""Names of models say which network they are, and find the published numbers of theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from theodolite.benchmarks.extraction import backbone_of
from theodolite.cli.app import app
from theodolite.core.errors import InputError
from theodolite.models import find_backbone, list_models, load_model, weights_present
from theodolite.models.registry import canonical_spec
from theodolite.paper.items import items
from theodolite.published import backbones, lookup


@pytest.mark.parametrize("spec", ["resnet18", "ResNet18", "resnet18?size=64"])
def test_resnet18_is_asked_back(spec: str) -> None:
    """It was the CIFAR-10 network, while resnet50 is the one for ImageNet."""
    for use in (load_model, weights_present, canonical_spec):
        with pytest.raises(
            InputError, match=r"resnet18-cifar10, the paper's .* or torchvision:resnet18, the"
        ):
            use(spec)


def test_both_are_there_under_their_own_names() -> None:
    assert canonical_spec("resnet18-cifar10") == "scl:resnet18"
    assert load_model("resnet18-cifar10", pretrained=False).input_shape == (3, 32, 32)
    assert load_model("torchvision:resnet18", pretrained=False).input_shape == (3, 224, 224)


def test_published_tables_know_it_by_their_name() -> None:
    for card in list_models():
        assert backbone_of(card.alias) == backbone_of(card.spec) == card.backbone
        assert find_backbone(card.backbone) == card
    assert backbone_of("resnet18-cifar10") == "resnet18"
    (found,) = lookup(
        protocol="cifar10",
        backbone=backbone_of("resnet18-cifar10"),
        detector="energy",
        ood="svhn",
        metric="fpr95",
        options={},
    )
    assert (found.table, found.printed) == ("cifar10", "53.96")
    # LeNet-5 is trained on the spot, and has no checkpoint.
    assert set(backbones()) - {card.backbone for card in list_models()} <= {"lenet5"}


def test_options_that_change_the_network_make_another_of_it() -> None:
    assert backbone_of("resnet18-cifar10?size=64") is None
    assert backbone_of("resnet50?mean=0") is None


def test_the_papers_tables_find_its_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEODOLITE_WEIGHTS", str(tmp_path))
    missing = "checkpoint of resnet18: scl:resnet18 is not on this machine"
    assert missing in items()["cifar10"].missing(None)
    (tmp_path / "CIFAR10_resnet18.pth.tar").touch()
    assert missing not in items()["cifar10"].missing(None)


def test_the_list_says_what_their_classes_are_of() -> None:
    shown = CliRunner().invoke(app, ["models"], env={"COLUMNS": "160"})
    lines = {line.split()[0]: line for line in shown.stdout.splitlines() if line.strip()}
    assert "CIFAR-10" in lines["resnet18-cifar10"]
    assert "CIFAR-10" in lines["resnet18-scl"]
    assert "ImageNet" in lines["resnet50"]
    assert "resnet18" not in lines
