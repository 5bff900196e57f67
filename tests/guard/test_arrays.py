"""Guards on features in files: with a head or without one, by Python and by the command."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from command_server import Outcome, run
from made_folders import make_folder
from made_guards import CLASSES, WIDTH, clusters, head
from theodolite import KNN, Energy, Guard, Verdicts, fit_guard, list_detectors
from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.detectors import detector_record
from theodolite.features import ExtractionSettings, FeatureStore, save_probe
from theodolite.guard import Provenance

pytestmark = pytest.mark.usefixtures("few_waves")

HEADLESS = [
    name
    for name in list_detectors()
    if not detector_record(name).detector.uses_logits and name not in ("mcm", "dice", "residual")
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, seed, count in (("train", 0, 1_500), ("val", 1, 400), ("new", 2, 300)):
        features, labels = clusters(count, seed)
        np.savez(tmp_path / f"{name}.npz", features=features, labels=labels)
        np.save(tmp_path / f"{name}.npy", features)
    save_probe(head(), tmp_path / "head.safetensors")
    return tmp_path


def test_a_guard_from_files_is_that_of_their_arrays(folder: Path) -> None:
    features, labels = clusters(1_500, 0)
    found = fit_guard(
        folder / "train.npz",
        head=folder / "head.safetensors",
        calibration=folder / "val.npz",
        class_names="abcde",
    )
    guard = found.guard
    by_hand = Guard.fit(features, labels, head=head(), calibration=clusters(400, 1)[0])
    np.testing.assert_allclose(guard.calibration.scores, by_hand.calibration.scores)
    assert (found.fitted_on, guard.provenance) == (1_500, None)
    assert found.agreement is not None
    assert found.agreement > 0.9
    rows = [row for batch in guard.score_paths([folder / "new.npy"]) for row in batch]
    expected = by_hand.verdicts(clusters(300, 2)[0])
    assert [row.path for row in rows] == [f"new.npy#{row}" for row in range(300)]
    assert [row.predicted for row in rows] == torch.as_tensor(expected.predicted).tolist()
    assert rows[0].name in {*"abcde"}
    assert [row.score for row in rows] == pytest.approx(torch.as_tensor(expected.score).tolist(), rel=1e-6)
    assert len(next(guard.score_paths(folder / "new.npy", limit=7))) == 7


@pytest.mark.parametrize("name", HEADLESS)
def test_scores_of_features_need_no_head(folder: Path, tmp_path: Path, name: str) -> None:
    """Embeddings of anything: verdicts without a class, the same from a file and from a state."""
    guard = fit_guard(folder / "train.npz", detector=name, calibration=folder / "val.npz").guard
    assert guard.head is None
    rows = guard.score_folder(folder / "new.npy")
    assert {(row.predicted, row.name) for row in rows} == {(None, None)}
    assert {row.verdict for row in rows} <= {"ID", "OOD"}
    assert np.mean([row.verdict == "OOD" for row in rows]) < 0.12
    strange = torch.randn(200, WIDTH, generator=torch.Generator().manual_seed(5))
    expected = guard.verdicts(strange)
    assert set(torch.as_tensor(expected.predicted).tolist()) == {-1}
    assert float(torch.as_tensor(expected.is_ood).double().mean()) > 0.5
    guard.save(tmp_path / "guard.safetensors")
    loaded = Guard.load(tmp_path / "guard.safetensors")
    assert (loaded.origin, loaded.calibrated, loaded.head) == (guard.origin, guard.calibrated, None)
    other = fit_guard(folder / "val.npz", detector=name, calibration=folder / "new.npz").guard
    other.load_state_dict(guard.state_dict())
    for found in (loaded.verdicts(strange), other.verdicts(strange)):
        assert_same(found, expected)


def assert_same(one: Verdicts, other: Verdicts) -> None:
    for a, b in zip(one, other, strict=True):
        torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))


def test_unscorable_rows_of_a_guard_without_head(folder: Path) -> None:
    guard = fit_guard(folder / "train.npz", detector="knn", calibration=folder / "val.npz").guard
    rows = clusters(5, 3)[0]
    rows[2, 1] = torch.nan
    np.save(folder / "odd.npy", rows)
    (found,) = guard.score_paths(folder / "odd.npy", unscorable="flag")
    assert [row.verdict == "unscorable" for row in found] == [False, False, True, False, False]
    with pytest.raises(InputError, match="NaN or infinity in row 2"):
        list(guard.score_paths(folder / "odd.npy"))


def test_a_score_of_logits_asks_for_the_head(folder: Path) -> None:
    for detector in (None, "ora"):
        with pytest.raises(InputError, match=r"needs a head.*--head head\.safetensors.*knn.*ssd"):
            fit_guard(folder / "train.npz", detector=detector)
        with pytest.raises(InputError, match="needs a head"):
            Guard.fit(clusters(300, 0)[0], detector=detector)
    with pytest.raises(InputError, match="without one no class is predicted"):
        fit_guard(folder / "train.npz", detector="knn", class_names=list("abcde"))


def test_what_does_not_belong_together_is_refused(folder: Path) -> None:
    np.save(folder / "wide.npy", np.zeros((50, WIDTH + 1)))
    guard = fit_guard(folder / "train.npz", detector="knn", calibration=folder / "val.npz").guard
    with pytest.raises(InputError, match=rf"wide\.npy holds features of width {WIDTH + 1}.*width {WIDTH}"):
        list(guard.score_paths(folder / "wide.npy"))
    with pytest.raises(InputError, match=r"wide\.npy holds features of width 17"):
        fit_guard([folder / "train.npy", folder / "wide.npy"], detector="knn")
    with pytest.raises(InputError, match=r"wide\.npy holds features of width 17"):
        fit_guard(folder / "train.npy", detector="knn", calibration=folder / "wide.npy")
    with pytest.raises(InputError, match="the head has width 16"):
        fit_guard(folder / "wide.npy", head=folder / "head.safetensors")
    with pytest.raises(InputError, match=r"--model is for images.*--from pictures"):
        fit_guard(folder / "train.npy", "timm:resnet18", head=folder / "head.safetensors")
    with pytest.raises(InputError, match="--limit is for images"):
        fit_guard(folder / "train.npy", detector="knn", settings=ExtractionSettings(limit=5))
    with pytest.raises(InputError, match="named twice"):
        fit_guard(folder / "train.npy", detector="knn", calibration=folder / "train.npy")
    np.savez(folder / "pictures.npz", images=np.zeros((9, 8, 8), dtype=np.uint8))
    with pytest.raises(InputError, match="that both are of one model cannot be known"):
        fit_guard([folder / "train.npy", folder / "pictures.npz"], detector="knn")
    with pytest.raises(InputError, match="does not know its model"):
        list(guard.score_paths(folder / "pictures.npz"))
    with pytest.raises(InputError, match=r"expected features of shape|holds images"):
        list(guard.score_paths(folder / "pictures.npz", kind="features"))


def test_a_guard_of_a_model_says_what_it_cannot_know_of_a_file(folder: Path) -> None:
    known = Provenance("python:a:b", "c" * 64, "plain", "fc")
    guard = Guard.fit(clusters(500, 0)[0], head=head(), detector="energy", provenance=known)
    with pytest.warns(TheodoliteWarning, match=r"new\.npy does not say whose features it holds.*python:a:b"):
        assert len(next(guard.score_paths(folder / "new.npy"))) == 300


def test_feature_folders_are_fitted_and_scored(tmp_path: Path) -> None:
    place = make_folder(tmp_path / "made")
    fitted = fit_guard(place, calibration=place)
    assert fitted.fitted_on == 1_500
    assert len(fitted.guard.calibration) == 300
    rows = fitted.guard.score_folder(place)
    flagged: dict[str, list[bool]] = {}
    for row in rows:
        flagged.setdefault(row.path.partition("#")[0], []).append(row.verdict == "OOD")
    assert list(flagged)[:2] == ["id_fit.safetensors", "id_test.safetensors"]
    assert sum(map(len, flagged.values())) == 1_500 + 300 + 4 * 250
    assert np.mean(flagged["svhn.safetensors"]) > 0.3 > np.mean(flagged["id_test.safetensors"])


def test_parts_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        np.save(tmp_path / place / "rows.npy", clusters(400, ord(place))[0])
    guard = fit_guard([tmp_path / "a" / "rows.npy", tmp_path / "b" / "rows.npy"], detector=KNN(k=5)).guard
    assert guard.origin is not None
    assert guard.origin.source.count("rows.npy") == 2
    assert 100 < len(guard.calibration) < 220


# ---------------------------------------------------------------------- the command


def command(*arguments: str | Path) -> Outcome:
    return run(*arguments, env={"COLUMNS": "300"})


def test_fit_score_and_inspect_take_features(folder: Path) -> None:
    guard, out = folder / "guard.safetensors", folder / "out.csv"
    data = ("--data", folder / "train.npz", "--calibration-data", folder / "val.npz")
    made = command("fit", *data, "--head", folder / "head.safetensors", "-o", guard)
    assert made.code == 0, made.err
    assert "fitted on 1,500 samples, calibrated on 400" in made.out
    done = command("score", guard, folder / "new.npy", "-o", out)
    assert done.code == 0, done.err
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert rows[17]["path"] == "new.npy#17"
    assert int(rows[17]["predicted"]) in range(CLASSES)
    shown = command("inspect", guard)
    assert "train.npz, width 16, float32" in shown.out
    assert "not known: features say nothing of their model" in shown.out
    assert "of other data than that to fit on" in shown.out


def test_a_guard_without_head_by_the_command(folder: Path) -> None:
    guard, out = folder / "guard.safetensors", folder / "out.csv"
    made = command("fit", "--data", folder / "train.npy", "--detector", "knn?k=5", "-o", guard)
    assert made.code == 0, made.err
    assert "without labels nothing shows whether the network was trained on it" in " ".join(
        (made.out + made.err).split()
    )
    done = command("score", guard, folder / "new.npy", "-o", out)
    assert done.code == 0, done.err
    assert {row["predicted"] for row in csv.DictReader(out.read_text().splitlines())} == {""}
    shown = command("inspect", guard)
    assert "none: it predicts no class" in shown.out
    refused = command("fit", "--data", folder / "train.npy", "-o", guard)
    assert refused.code == 2
    assert "--head head.safetensors" in " ".join(refused.err.split())


def test_from_says_what_an_array_holds(folder: Path) -> None:
    save_file({"weight": torch.ones(2, 4)}, folder / "other.safetensors")
    np.savez(folder / "x.npz", x=clusters(300, 0)[0].numpy())
    fit = ("fit", "--detector", "knn?k=5", "-o", folder / "guard.safetensors")
    assert command(*fit, "--data", folder / "x.npz", "--from", "features").code == 0
    for arguments, message in (
        (("--data", folder / "x.npz", "--from", "tables"), "--from must be features or pictures"),
        (("--data", folder / "x.npz", "--from", "features", "--kind", "npz"), "is a kind of pictures"),
        (("--data", folder / "train.npy", "--from", "pictures"), "images have shape (1500, 16)"),
        (("--data", folder / "other.safetensors"), "expected features of shape (N, D)"),
    ):
        outcome = command(*fit, *arguments)
        assert outcome.code == 2
        assert message in " ".join(outcome.err.split())


@pytest.mark.parametrize("form", ["npz", "parquet"])
def test_extract_puts_features_into_a_store(folder: Path, form: str) -> None:
    features, labels = clusters(1_500, 0)
    if form == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="pip install 'theodolite[parquet]'")
        table = pyarrow.table({"features": list(features.numpy()), "label": labels.numpy()})
        pytest.importorskip("pyarrow.parquet").write_table(
            table, folder / "train.parquet", row_group_size=450
        )
    data = ("--data", folder / f"train.{form}", "-o", folder / "store")
    assert "--head head.safetensors" in " ".join(command("extract", *data).err.split())
    done = command("extract", *data, "--head", folder / "head.safetensors")
    assert done.code == 0, done.err
    store = FeatureStore(folder / "store")
    torch.testing.assert_close(torch.cat([rows for rows, _, _ in store]), features)
    torch.testing.assert_close(torch.cat([part for _, part, _ in store if part is not None]), labels)
    assert next(store.names()) == f"train.{form}#0"
    fitted = fit_guard(folder / "store", calibration=None, detector="energy").guard
    by_hand = fit_guard(folder / f"train.{form}", head=head(), detector="energy").guard
    np.testing.assert_array_equal(fitted.calibration.scores, by_hand.calibration.scores)
    assert fitted.provenance is None
    assert fitted.origin is not None
    assert fitted.origin.weights is None
    assert len(fitted.score_folder(folder / "store")) == 1_500
    again = command("extract", *data, "--head", folder / "head.safetensors", "--model", "timm:resnet18")
    assert "leave --model and --weights out" in " ".join(again.err.split())


def test_energy_needs_its_head_in_memory_too() -> None:
    features, labels = clusters(400, 0)
    assert Guard.fit(features, labels, head=head(), detector=Energy()).head is not None
