"""Parts that travel as files: merged they give the guard of the whole, or they are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import theodolite.guard.part as part_module
from labelled import labels_of
from made_guards import CLASSES, WIDTH, clusters, head
from made_stores import store_of
from realdata import load_split
from theodolite import KNN, ORA, Head, Part, ReAct, collect, fit_guard, fit_parts, list_detectors
from theodolite.core.errors import CalibrationWarning, FormatError, InputError, TheodoliteWarning
from theodolite.features import ExtractionSettings, save_probe
from theodolite.guard import FittedGuard, Guard
from theodolite.guard.holdout import in_share

pytestmark = pytest.mark.usefixtures("few_waves")

MODEL = "python:small_models:Tiny?mean=0&size=8"
ROWS = 1_200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Features to fit on and to calibrate on, their head, and new ones."""
    for name, seed, count in (("train", 0, ROWS), ("val", 1, 300)):
        features, labels = clusters(count, seed)
        np.savez(tmp_path / f"{name}.npz", features=features, labels=labels)
    save_probe(head(), tmp_path / "head.safetensors")
    return tmp_path


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("THEODOLITE_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)
    for name, count in (("train", 240), ("val", 60)):
        images = rng.integers(0, 256, (count, 8, 8), dtype=np.uint8)
        np.savez(tmp_path / f"{name}.npz", images=images, labels=labels_of(images))
    return tmp_path


def settings(number: int | None, count: int = 4) -> ExtractionSettings:
    return ExtractionSettings(part=None if number is None else f"{number}/{count}")


def parts_of(
    folder: Path,
    detector: str | ORA | KNN = "ora",
    *,
    count: int = 4,
    share: float = 0.2,
    look: Sequence[Part] = (),
    data: str = "train.npz",
) -> list[Part]:
    return [
        collect(
            folder / data,
            detectors=[detector],
            calibration_share=share,
            first_look=look,
            settings=settings(number, count),
            head=folder / "head.safetensors",
        )
        for number in range(1, count + 1)
    ]


def saved(parts: Sequence[Part], folder: Path) -> list[Path]:
    paths = [folder / f"part-{place}.safetensors" for place in range(len(parts))]
    for part, path in zip(parts, paths, strict=True):
        part.save(path)
    return paths


def assert_same_guard(found: FittedGuard, whole: FittedGuard, new: torch.Tensor) -> None:
    """The same statistics to rounding, the same calibration rows, the same verdicts."""
    assert found.fitted_on == whole.fitted_on
    one, other = found.guard, whole.guard
    scores = torch.tensor(other.calibration.scores)
    scale = float(scores.abs().max()) or 1.0
    assert len(one.calibration) == len(other.calibration)
    torch.testing.assert_close(torch.tensor(one.calibration.scores), scores, rtol=1e-5, atol=1e-6 * scale)
    mine, its = one.verdicts(new), other.verdicts(new)
    torch.testing.assert_close(
        torch.as_tensor(mine.score), torch.as_tensor(its.score), rtol=1e-5, atol=1e-6 * scale
    )
    # A score within rounding of the threshold may fall on either side of it; these do not.
    assert torch.equal(torch.as_tensor(mine.is_ood), torch.as_tensor(its.is_ood))
    assert one.provenance == other.provenance
    assert one.origin == other.origin
    assert one.class_names == other.class_names
    assert one.calibrated == other.calibrated


@pytest.mark.parametrize("name", list_detectors())
def test_four_parts_give_the_guard_of_the_whole(name: str, folder: Path) -> None:
    whole = fit_guard(folder / "train.npz", detector=name, head=folder / "head.safetensors", force=True)
    paths = saved(parts_of(folder, name), folder)
    assert_same_guard(fit_parts(paths, force=True), whole, clusters(200, 5, spread=3)[0])


LEARNING = [
    "ora+react:80",
    "knn?k=5&fraction=0.3+react:90",
    "ora+vra:60,90",
    "corp?components=64+vra",
    "energy+vra-clip",
    "mds+vra-clip-units",
    "ora+ras",
]


@pytest.mark.parametrize("spec", [*LEARNING, "energy+scale:85", "ora+vra-at:0.5,1"])
def test_a_shaping_learns_from_the_first_look_of_all_parts(spec: str, folder: Path) -> None:
    whole = fit_guard(folder / "train.npz", detector=spec, head=folder / "head.safetensors")
    look = parts_of(folder, spec) if spec in LEARNING else []
    assert all(part.first_look for part in look)
    travelled = [Part.load(path) for path in saved(look, folder)]
    parts = parts_of(folder, spec, look=travelled)
    # Whatever the order that looks are named in, all parts learn the same to the last bit.
    parts[2] = parts_of(folder, spec, look=travelled[::-1])[2]
    assert_same_guard(fit_parts(saved(parts, folder)), whole, clusters(200, 5, spread=3)[0])
    again = fit_parts(parts, detector=spec)
    assert again.guard.detector.view_key == whole.guard.detector.view_key


@pytest.mark.parametrize(
    "detector",
    ["ora", "relative-energy", "mds", "knn?k=50&fraction=0.2", "ora+react:80", "ora+vra", "energy+ras"],
)
def test_on_real_features(detector: str, data_root: Path, tmp_path: Path) -> None:
    data = data_root / "cifar10-densenet"

    def collected(look: Sequence[Part] = ()) -> list[Part]:
        return [
            collect(data, detectors=[detector], first_look=look, settings=settings(number))
            for number in range(1, 5)
        ]

    parts = collected(collected() if detector.partition("+")[2] else ())
    found, whole = fit_parts(saved(parts, tmp_path)), fit_guard(data, detector=detector)
    for (name, mine), its in zip(
        found.guard.detector.named_buffers(), whole.guard.detector.buffers(), strict=True
    ):
        if name not in ("metric_directions", "factor", "means"):  # eigenvectors turn with the last digits
            torch.testing.assert_close(mine, its, rtol=1e-10, atol=1e-12, msg=name)
    assert_same_guard(found, whole, load_split(data_root, "cifar10-densenet", "svhn")[0][:500])


def test_pictures_in_parts(pictures: Path) -> None:
    whole = fit_guard(pictures / "train.npz", MODEL, class_names=None)
    parts = [collect(pictures / "train.npz", MODEL, settings=settings(number)) for number in (2, 4, 1, 3)]
    found = fit_parts(saved(parts, pictures))
    assert found.guard.provenance == whole.guard.provenance
    assert found.fitted_on == whole.fitted_on
    np.testing.assert_allclose(
        found.guard.calibration.scores, whole.guard.calibration.scores, rtol=1e-4, atol=1e-5
    )


def test_a_store_in_parts(tmp_path: Path) -> None:
    features, labels = clusters(500, 0)
    store = store_of(tmp_path / "store", features, labels, head())
    parts = [
        collect(store.path, detectors=["mds", "ora"], settings=settings(number, 3)) for number in (1, 2, 3)
    ]
    assert [part.samples.count for part in parts] == [166, 167, 167]
    for name in ("mds", "ora"):
        whole = fit_guard(store.path, detector=name)
        assert_same_guard(fit_parts(parts, detector=name), whole, clusters(200, 5, spread=3)[0])
    with pytest.raises(InputError, match="collected for mds, ora: say which"):
        fit_parts(parts)


def test_any_order_and_grouping(folder: Path) -> None:
    one, two, three, four = parts_of(folder, "mds")
    expected = fit_parts([one, two, three, four])
    for merged in ((four + two) + (one + three), one + (three + (two + four))):
        assert_same_guard(fit_parts([merged]), expected, clusters(200, 5)[0])


def test_a_threshold_for_every_class(folder: Path) -> None:
    whole = fit_guard(folder / "train.npz", detector="ora", head=folder / "head.safetensors", per_class=30)
    found = fit_parts(parts_of(folder), per_class=30)
    for label in range(CLASSES):
        mine, its = (one.guard.calibration.threshold(0.1, label) for one in (found, whole))
        assert mine == pytest.approx(its, rel=1e-5)


def test_features_without_a_head(folder: Path) -> None:
    np.save(folder / "rows.npy", clusters(400, 3)[0])
    parts = [
        collect(folder / "rows.npy", detectors=["knn?k=3"], settings=settings(number))
        for number in range(1, 5)
    ]
    whole = fit_guard(folder / "rows.npy", detector="knn?k=3")
    assert_same_guard(fit_parts(saved(parts, folder)), whole, clusters(100, 5)[0])


def test_a_part_comes_back_bit_by_bit(folder: Path) -> None:
    for detector in ("mds", "knn?fraction=0.5", "ora+react:80", "ora+vra", "ora+ras", "corp?components=64"):
        part = parts_of(folder, detector)[0]
        part.save(folder / "a.safetensors")
        Part.load(folder / "a.safetensors").save(folder / "b.safetensors")
        assert (folder / "a.safetensors").read_bytes() == (folder / "b.safetensors").read_bytes()


def test_a_damaged_part_is_refused(folder: Path) -> None:
    (path, *_) = saved(parts_of(folder), folder)
    content = path.read_bytes()
    for place in range(8, len(content), len(content) // 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        with pytest.raises(FormatError):
            Part.load(path)


# ---------------------------------------------------------------------- calibration data of its own


def test_calibration_data_of_its_own(folder: Path) -> None:
    parts = parts_of(folder, share=0)
    assert all(part.fitted_on == ROWS // 4 and len(part.held_out) == 0 for part in parts)
    whole = fit_guard(
        folder / "train.npz",
        detector="ora",
        calibration=folder / "val.npz",
        head=folder / "head.safetensors",
    )
    found = fit_parts(saved(parts, folder), calibration=folder / "val.npz")
    assert_same_guard(found, whole, clusters(200, 5)[0])
    with pytest.raises(InputError, match="hold no rows out"):
        fit_parts(parts)
    with pytest.raises(InputError, match=r"hold out 20 %.*--calibration-share 0"):
        fit_parts(parts_of(folder), calibration=folder / "val.npz")


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_rows_that_were_fitted_on_do_not_calibrate(kind: str, folder: Path) -> None:
    features, new = clusters(ROWS, 0)[0], clusters(200, 9)[0]
    mixed = np.concatenate([features[::40], new]).astype(kind)
    np.savez(folder / "mixed.npz", features=mixed)
    parts = parts_of(folder, share=0)
    with pytest.raises(InputError, match="30 of 230 rows to calibrate on are fitted on as well"):
        fit_parts(parts, calibration=folder / "mixed.npz")
    with pytest.raises(InputError, match="fitted on as well"):
        fit_parts(parts, calibration=folder / "train.npz")
    np.savez(folder / "one.npz", features=np.concatenate([features[:1], new]), labels=[0] * 201)
    with pytest.warns(CalibrationWarning, match="1 of 201 rows"):
        fit_parts(parts, calibration=folder / "one.npz", force=True)


def test_pictures_that_were_fitted_on_do_not_calibrate(pictures: Path) -> None:
    parts = [
        collect(pictures / "train.npz", MODEL, calibration_share=0, settings=settings(number))
        for number in range(1, 5)
    ]
    fitted = fit_parts(parts, calibration=pictures / "val.npz", model=MODEL)
    assert len(fitted.guard.calibration) == 60
    with np.load(pictures / "train.npz") as archive:
        images, labels = archive["images"], archive["labels"]
    np.savez(pictures / "some.npz", images=images[100:160], labels=labels[100:160])
    with pytest.raises(InputError, match="60 of 60 samples to calibrate on are fitted on as well"):
        fit_parts(parts, calibration=pictures / "some.npz", model=MODEL)


def test_twins_across_the_share_are_told(folder: Path) -> None:
    features, labels = clusters(400, 0)
    twice = torch.cat([features, features])
    np.savez(folder / "doubled.npz", features=twice, labels=torch.cat([labels, labels]))
    parts = parts_of(folder, data="doubled.npz")
    with pytest.warns(CalibrationWarning, match=r"rows to calibrate on are fitted on as well, and \d+"):
        fit_parts(parts)


def test_too_few_rows_to_compare_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("theodolite.guard.fitted_rows.FittedRows.__init__.__defaults__", (3,))
    parts = parts_of(folder, share=0)
    with pytest.warns(CalibrationWarning, match=r"of 300 rows .* only \d+ could be compared"):
        fit_parts(parts, calibration=folder / "val.npz")


def test_of_too_many_held_out_rows_a_smaller_share_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = Part.merged(parts_of(folder)).held_out.ids
    monkeypatch.setattr(part_module, "HELD_OUT_ROWS", 60)
    parts = parts_of(folder)
    assert 60 < sum(len(part.held_out) for part in parts) < 180 < len(ids), "no part keeps what none will use"
    merged = Part.merged(parts)
    smaller = [ids[in_share(ids, share)] for share in np.linspace(0.01, 0.2, 400)]
    same = [chosen for chosen in smaller if len(chosen) == 60]
    assert same, "some smaller share holds out as many"
    assert set(merged.held_out.ids.tolist()) == set(same[0].tolist())
    assert merged.fitted_on == ROWS - len(ids), "what is not kept is not fitted on either"
    with pytest.warns(TheodoliteWarning, match=r"the parts keep 60, at most"):
        fit_parts(parts)


def test_data_of_different_sizes_keeps_the_same_share(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the smaller would be a larger share of the calibration rows than of the data."""
    monkeypatch.setattr(part_module, "HELD_OUT_ROWS", 100)
    large = parts_of(folder)[0]  # one of four: fewer rows than there is room for
    (small,) = parts_of(folder, count=1, data="val.npz")
    assert large.kept < small.kept
    merged = large + small
    assert len(merged.held_out) < 100
    expected = int(in_share(small.held_out.ids, large.kept).sum())
    assert 0 < expected < len(small.held_out)
    assert len(merged.held_out) == len(large.held_out) + expected


# ---------------------------------------------------------------------- refusals


def other_head(folder: Path) -> Part:
    save_probe(
        Head(torch.ones(CLASSES, WIDTH) * torch.arange(CLASSES)[:, None]), folder / "other.safetensors"
    )
    return collect(
        folder / "train.npz", detectors=["ora"], settings=settings(2), head=folder / "other.safetensors"
    )


def changed(part: Part, *, number: int | None = None, samples: int | None = None) -> Part:
    (own,) = part.source.lots
    lot = replace(own, number=number or own.number, samples=samples or own.samples)
    return replace(part, source=replace(part.source, lots=(lot,)))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda folder: parts_of(folder)[0], r"part 1/4 of .* is there twice"),
        (lambda folder: parts_of(folder, count=3)[1], r"cut from 1,200 samples .* do not fit together"),
        (lambda folder: changed(parts_of(folder)[1], samples=1_201), r"cut from 1,201 samples"),
        (lambda folder: changed(parts_of(folder)[0], number=2), "share samples: 300 ids"),
        (lambda folder: parts_of(folder, "mds")[1], "different scores"),
        (lambda folder: parts_of(folder, "knn?seed=3")[1], "different scores"),
        (lambda folder: parts_of(folder, "ora+scale:85")[1], "different scores"),
        (lambda folder: parts_of(folder, share=0.3)[1], "holds out 20 % .* another 30 %"),
        (lambda folder: parts_of(folder, "ora+react:80")[1], "some parts are a first look"),
        (other_head, "different models, layers"),
    ],
    ids=[
        *("the same", "another cut", "another listing", "overlap", "needs", "seed", "view", "share"),
        *("first look", "head"),
    ],
)
def test_parts_that_do_not_belong_together(other: Callable[[Path], Part], message: str, folder: Path) -> None:
    first = parts_of(folder)[0]
    with pytest.raises(InputError, match=message):
        fit_parts([first, other(folder)], incomplete=True)


def test_parts_of_different_models(pictures: Path) -> None:
    one = collect(pictures / "train.npz", MODEL, settings=settings(1, 2))
    other = collect(pictures / "train.npz", MODEL.replace("mean=0", "mean=0.5"), settings=settings(2, 2))
    with pytest.raises(InputError, match="different models, layers or preprocessing"):
        fit_parts([one, other])


def test_parts_whose_labels_number_other_classes(pictures: Path) -> None:
    one, other = (collect(pictures / "train.npz", MODEL, settings=settings(number, 2)) for number in (1, 2))
    renamed = replace(other, source=replace(other.source, folders=("cat", "dog", "emu")))
    with pytest.raises(InputError, match="number different classes"):
        fit_parts([one, renamed])
    with pytest.raises(InputError, match="one has a label for every sample"):
        fit_parts([one, replace(other, source=replace(other.source, labelled=False))])


def test_missing_parts_are_an_error_unless_they_may_be(folder: Path) -> None:
    parts = parts_of(folder)
    with pytest.raises(InputError, match=r"1 of 4 parts of .*train.npz are not there \(3\).*--incomplete"):
        fit_parts([parts[0], parts[1], parts[3]])
    with pytest.warns(TheodoliteWarning, match=r"1 of 4 parts .* knows nothing of their samples"):
        found = fit_parts([parts[0], parts[1], parts[3]], incomplete=True)
    assert found.fitted_on == sum(parts[place].fitted_on for place in (0, 1, 3))


def test_what_the_parts_were_not_collected_for(folder: Path) -> None:
    parts = parts_of(folder)
    with pytest.raises(InputError, match="lacks what MDS needs"):
        fit_parts(parts, detector="mds")
    with pytest.raises(InputError, match="not collected for react:80"):
        fit_parts(parts, detector="ora+react:80")
    with pytest.raises(InputError, match="needs those of unit"):
        fit_parts(parts, detector="ssd+")
    assert fit_parts(parts, detector="energy").fitted_on == fit_parts(parts).fitted_on
    with pytest.raises(InputError, match="parts is empty"):
        fit_parts([])


def test_a_first_look_is_no_part_to_fit_on(folder: Path) -> None:
    look = parts_of(folder, "ora+react:80")
    with pytest.raises(InputError, match="the parts are a first look"):
        fit_parts(look)
    with pytest.raises(InputError, match="are not there"):
        parts_of(folder, "ora+react:80", look=look[:3])
    with pytest.raises(InputError, match=r"held out 20 % .* now it is 30 %"):
        parts_of(folder, "ora+react:80", look=look, share=0.3)
    with pytest.raises(
        InputError, match=r"not taken for vra:60,90: collect it again with the same --detector"
    ):
        parts_of(folder, "ora+vra", look=look)
    with pytest.raises(InputError, match="leave --first-look out"):
        parts_of(folder, "ora", look=look)
    with pytest.raises(InputError, match="name the parts that the first round gave"):
        parts_of(folder, "ora+react:80", look=parts_of(folder))
    learnt = ORA(shaping=ReAct(percentile=80).fit([clusters(ROWS, 0)[0]]))
    assert not parts_of(folder, learnt)[0].first_look


def test_what_cannot_be_collected(folder: Path, tmp_path: Path) -> None:
    features, labels = clusters(300, 0)
    store = store_of(tmp_path / "store", features, labels, head())
    with pytest.raises(InputError, match="of which a part has nothing to learn"):
        collect(store.path, detectors=[KNN(store=store.path)])
    with pytest.raises(InputError, match=r"part 5/4 of 1200 samples does not exist"):
        collect(folder / "train.npz", settings=settings(5), head=folder / "head.safetensors")
    with pytest.raises(InputError, match="calibration share must lie"):
        collect(folder / "train.npz", calibration_share=1.0, head=folder / "head.safetensors")
    with pytest.raises(InputError, match="needs a head"):
        collect(folder / "train.npz", detectors=["ora"])
    np.savez(folder / "same.npz", features=clusters(40, 1)[0], ids=np.arange(40))
    np.savez(folder / "more.npz", features=clusters(40, 2)[0], ids=np.arange(40))
    with pytest.raises(InputError, match="ids name 40 samples or more twice"):
        collect([folder / "same.npz", folder / "more.npz"], detectors=["knn"])


# ---------------------------------------------------------------------- references in memory


def test_a_guard_on_a_reference_needs_other_data_and_says_what_it_cannot_know() -> None:
    features, labels = clusters(600, 0)
    ids, new = torch.arange(600), clusters(200, 1)[0]
    halves = [
        ORA().collect(features[part], labels[part], head=head(), ids=ids[part])
        for part in (slice(0, 250), slice(250, None))
    ]
    with pytest.raises(InputError, match="no rows of it can be held out"):
        Guard.fit(halves[0] + halves[1], detector=ORA())
    with pytest.warns(CalibrationWarning, match="whose rows are not there to be compared with"):
        guard = Guard.fit(halves[0] + halves[1], detector=ORA(), calibration=new)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = Guard.fit(features, labels, head=head(), detector=ORA(), calibration=new)
    np.testing.assert_allclose(guard.calibration.scores, whole.calibration.scores, rtol=1e-5, atol=1e-6)


def test_labels_that_do_not_agree_are_refused_also_where_nothing_is_held_out(folder: Path) -> None:
    features, labels = clusters(600, 0)
    np.savez(folder / "renamed.npz", features=features, labels=(labels + 1) % CLASSES)
    np.save(folder / "val.npy", clusters(100, 1)[0])
    parts = parts_of(folder, share=0, data="renamed.npz")
    with pytest.raises(InputError, match=r"labels, hardly more than by chance.*--force"):
        fit_parts(parts, calibration=folder / "val.npy")
    assert fit_parts(parts, calibration=folder / "val.npy", force=True).notes
    with pytest.raises(InputError, match=r"hardly more than by chance"):
        fit_parts(parts_of(folder, data="renamed.npz"))


def test_a_part_is_as_large_as_the_page_says(folder: Path) -> None:
    """The formulas of docs/scale.md, for float32 features in files; a header is a few thousand bytes."""
    width, classes, n = WIDTH, CLASSES, 0
    for name, learnt in (
        ("ora", 8 * width),
        ("mds", 8 * classes * width + 4 * width * (width + 1)),
        ("knn", -1),
    ):
        part = parts_of(folder, name, count=1)[0]
        n = part.fitted_on
        part.save(folder / "part.safetensors")
        rows = 4 * width + 16
        expected = 4 * classes * (width + 1) + (n * rows if learnt < 0 else learnt)
        expected += (ROWS - n) * rows + 8 * ROWS + 24 * n
        assert 0 < (folder / "part.safetensors").stat().st_size - expected < 6_000
