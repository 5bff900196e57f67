"""The protocols of OpenOOD v1.5 (Zhang et al., arXiv:2306.09301), on its own lists of pictures.

OpenOOD's data folder holds ``benchmark_imglist/NAME/LIST.txt`` (`path label` a line) and the pictures in
``images_classic`` and ``images_largescale``. A data set here is one folder of lists, a split is one list: how
many lines it has, and what the sha256 of the file begins with. Counts and digests are of the lists as public
repositories have them. These have most lists alike; where other files of the same name are in circulation
they are refused as other lists:

    imagenet200/test_imagenet200  9,000 lines, 8f225c26d8f1: moxime/ooddict, the same file as validation
    cifar10/test_tin              8,793 lines, cf2ed2e4d8af: hungdv1107/OpenOOD, 1,000 more, as validation has
    cifar100/test_tin             7,498 lines, 9c4c5c534cae: there too, 972 more, as validation has

Lists that none of them has (the training lists of ImageNet) are taken as they are, and that is said.

OOD sets are in two groups, near and far, whose figures are unweighted means over their sets. Settings are
chosen on the validation sets, which judge nothing. Full-spectrum counts ID data under a shift (``csid`` in
OpenOOD's words) as ID.
"""

from __future__ import annotations

from typing import NamedTuple

from ..published.leaderboard import FAR, NEAR
from .datasets import Dataset, Split, register_dataset
from .feature_sets import FIT, ID_VAL, OOD_VAL, TEST
from .protocols import Protocol, ProtocolSet, Validation, register_protocol

_OBTAIN = (
    "scripts/download/download.sh of https://github.com/Jingkang50/OpenOOD fetches lists and pictures "
    "(ImageNet's own from https://image-net.org); put or link its folder data as openood below the data root"
)
# Where OpenOOD's data folder may be below the data root; it may be the data root itself.
_FOLDERS = ("openood/", "OpenOOD/data/", "")
_CLASSIC, _LARGE = "images_classic", "images_largescale"


class _List(NamedTuple):
    """A list: its lines, what its digest begins with, and the folder of its pictures."""

    lines: int | None
    digest: str | None
    images: str


class _Benchmark(NamedTuple):
    """One benchmark: its folder of lists, the lists by name, and what each is for."""

    folder: str
    title: str
    known: str
    lists: dict[str, _List]
    validation: str
    near: tuple[str, ...]
    far: tuple[str, ...]
    shifted: tuple[tuple[str, str], ...] = ()


def _classic(**lists: tuple[int, str]) -> dict[str, _List]:
    return {name: _List(*facts, _CLASSIC) for name, facts in lists.items()}


def _large(**lists: tuple[int | None, str | None]) -> dict[str, _List]:
    return {name: _List(*facts, _LARGE) for name, facts in lists.items()}


_SMALL_FAR = ("mnist", "svhn", "texture", "places365")
_LARGE_NEAR, _LARGE_FAR = ("ssb_hard", "ninco"), ("inaturalist", "textures", "openimage_o")
_SMALL = _classic(
    test_mnist=(70_000, "48f8055d7327"),
    test_svhn=(26_032, "f0cb7b825a98"),
    test_texture=(5_640, "644fcaec364e"),
)
_OUTLIERS = {
    **_large(
        val_openimage_o=(1_763, "3bb122770177"),
        test_ssb_hard=(49_000, "e2dc7ba6c1e2"),
        test_ninco=(5_879, "28450babf7d8"),
        test_inaturalist=(10_000, "86a19665f968"),
        test_openimage_o=(15_869, "cbfb3ab73257"),
    ),
    **_classic(test_textures=(5_160, "9cf1ff7e97ce")),
}

BENCHMARKS = {
    "openood-cifar10": _Benchmark(
        "cifar10",
        "OpenOOD v1.5, CIFAR-10",
        "cifar10",
        {
            **_classic(
                train_cifar10=(50_000, "9317e18980f1"),
                val_cifar10=(1_000, "6f64c4370bf3"),
                test_cifar10=(9_000, "84559ec52254"),
                val_tin=(1_000, "39e22c5c6c2d"),
                test_cifar100=(9_000, "f907cb13024b"),
                test_tin=(7_793, "a44fd34e3c92"),
                test_places365=(35_195, "fa127faa5c1b"),
                test_cifar10c=(10_000, "92bf50253d3f"),
            ),
            **_SMALL,
        },
        "val_tin",
        ("cifar100", "tin"),
        _SMALL_FAR,
        (("cifar10c", "test_cifar10c"),),
    ),
    "openood-cifar100": _Benchmark(
        "cifar100",
        "OpenOOD v1.5, CIFAR-100",
        "cifar100",
        {
            **_classic(
                train_cifar100=(50_000, "50486e5eadbc"),
                val_cifar100=(1_000, "c3c7a4fdade2"),
                test_cifar100=(9_000, "b80ec93f9800"),
                val_tin=(972, "b9b77628910b"),
                test_cifar10=(10_000, "352dd98e85f2"),
                test_tin=(6_526, "8a85ed220319"),
                test_places365=(33_773, "72d284ba5526"),
            ),
            **_SMALL,
        },
        "val_tin",
        ("cifar10", "tin"),
        _SMALL_FAR,
    ),
    "openood-imagenet200": _Benchmark(
        "imagenet200",
        "OpenOOD v1.5, ImageNet-200",
        "imagenet200",
        {
            **_large(
                train_imagenet200=(None, None),
                val_imagenet200=(1_000, "4ae10c9e9351"),
                test_imagenet200=(9_000, "2f367e0d8bc4"),
                test_imagenet200_v2=(2_000, "4f6b3544130f"),
                test_imagenet200_c=(2_000, "60146e21759e"),
                test_imagenet200_r=(30_000, "73f9a85e9757"),
            ),
            **_OUTLIERS,
        },
        "val_openimage_o",
        _LARGE_NEAR,
        _LARGE_FAR,
        tuple((f"imagenet_{shift}", f"test_imagenet200_{shift}") for shift in ("v2", "c", "r")),
    ),
    "openood-imagenet1k": _Benchmark(
        "imagenet",
        "OpenOOD v1.5, ImageNet-1K",
        "imagenet",
        {
            **_large(
                train_imagenet=(1_281_167, None),
                val_imagenet=(5_000, "b352c357d25c"),
                test_imagenet=(45_000, "7e0e05f8aa8e"),
                test_imagenet_v2=(10_000, "44f4322a5a44"),
                test_imagenet_c=(10_000, "d31f2b2fb1b2"),
                test_imagenet_r=(30_000, "a9668e25fa5c"),
            ),
            **_OUTLIERS,
        },
        "val_openimage_o",
        _LARGE_NEAR,
        _LARGE_FAR,
        tuple((f"imagenet_{shift}", f"test_imagenet_{shift}") for shift in ("v2", "c", "r")),
    ),
}


def _dataset(name: str, facts: _Benchmark) -> Dataset:
    splits = {
        listed: Split(
            lines,
            tuple(f"{above}benchmark_imglist/{facts.folder}/{listed}.txt" for above in _FOLDERS),
            kind="list",
            images=images,
            digest=digest,
        )
        for listed, (lines, digest, images) in facts.lists.items()
    }
    return Dataset(name, facts.title, splits, _OBTAIN)


def _protocol(name: str, facts: _Benchmark) -> Protocol:
    groups = {NEAR: facts.near, FAR: facts.far}
    return Protocol(
        name,
        f"{facts.title}: near {', '.join(facts.near)}; far {', '.join(facts.far)}",
        ProtocolSet(FIT, name, f"train_{facts.known}"),
        ProtocolSet(TEST, name, f"test_{facts.known}"),
        tuple(
            ProtocolSet(part, name, f"test_{part}", group=group)
            for group, parts in groups.items()
            for part in parts
        ),
        shifted=tuple(ProtocolSet(part, name, listed) for part, listed in facts.shifted),
        validation=Validation(
            ProtocolSet(ID_VAL, name, f"val_{facts.known}"), ProtocolSet(OOD_VAL, name, facts.validation)
        ),
    )


for _name, _facts in BENCHMARKS.items():
    register_dataset(_dataset(_name, _facts))
    register_protocol(_protocol(_name, _facts))
