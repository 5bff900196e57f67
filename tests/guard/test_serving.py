"""A guard as a function over batches: its verdicts, wherever it is called and however rows come."""

from __future__ import annotations

import io
import multiprocessing
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import theodolite as th
from made_guards import WIDTH, clusters, fitted, head
from serving_worker import call
from small_models import Tiny
from theodolite.core.errors import InputError, TheodoliteWarning, UnreadableImageError
from theodolite.guard import BatchGuard, Guard, Provenance
from theodolite.guard.columns import Column
from theodolite.guard.serving import ADDED

MODEL = "python:small_models:Tiny?mean=0&size=8"


def rows(count: int = 40) -> np.ndarray[Any, np.dtype[np.float32]]:
    features, _ = clusters(count, 5, spread=3.0)
    made: np.ndarray[Any, np.dtype[np.float32]] = features.numpy()
    return made


def same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Equal to the last bit, NaN where NaN is."""
    assert one.keys() == other.keys()
    for name in one:
        left, right = np.asarray(one[name]), np.asarray(other[name])
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.fixture(scope="module")
def guard() -> Guard:
    return fitted(600, class_names=["ant", "bee", "cat", "dog", "emu"])


@pytest.fixture(scope="module")
def picture_guard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guard of pictures whose model is code, with features of its own noise."""
    folder = tmp_path_factory.mktemp("pictures")
    loaded = th.load_model(MODEL)
    images = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    capture = th.Capture(loaded.model)
    features, _ = capture(images)
    made = Guard.fit(
        features,
        head=capture.head,
        detector="ora",
        provenance=Provenance.of_model(loaded, capture.layer),
    )
    made.save(folder / "guard.safetensors")
    return folder / "guard.safetensors"


def encoded(count: int = 6, kind: str = "PNG") -> list[bytes]:
    rng = np.random.default_rng(1)
    made = []
    for _ in range(count):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(file, kind)
        made.append(file.getvalue())
    return made


def objects(values: list[Any]) -> np.ndarray[Any, np.dtype[np.object_]]:
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array


def test_the_columns_are_the_guards_verdicts(guard: Guard) -> None:
    batch: dict[str, Column] = {"id": np.arange(40), "features": rows()}
    judged = BatchGuard(guard)(batch)
    verdicts = guard.verdicts(rows())
    assert list(judged) == ["id", "features", *ADDED]
    assert judged["features"] is batch["features"]
    np.testing.assert_array_equal(judged["predicted"], verdicts.predicted)
    np.testing.assert_array_equal(judged["score"], verdicts.score)
    np.testing.assert_array_equal(judged["p_value"], verdicts.p_value)
    np.testing.assert_array_equal(judged["is_ood"], verdicts.is_ood)
    assert list(judged["name"]) == [guard.class_name(int(label)) for label in verdicts.predicted]
    assert not np.asarray(judged["unscorable"]).any()
    assert np.asarray(judged["is_ood"]).any()
    other = BatchGuard(guard, false_alarm_rate=0.5)(batch)
    np.testing.assert_array_equal(other["is_ood"], guard.verdicts(rows(), false_alarm_rate=0.5).is_ood)


def test_however_rows_come_the_verdicts_are_the_same(guard: Guard) -> None:
    pandas = pytest.importorskip("pandas")
    judge, expected = BatchGuard(guard), BatchGuard(guard).columns(rows())
    as_lists = BatchGuard(guard).columns(rows().astype(np.float64))
    for values in (
        torch.from_numpy(rows()),
        objects(list(rows())),
        list(rows()),
        pandas.Series(list(rows())),
        pandas.Series(list(rows()), index=range(100, 140)),
    ):
        same(judge.columns(values), expected)
    same(judge.columns(rows().astype(np.float64).tolist()), as_lists)
    same(judge.columns(np.array(rows().astype(np.float64).tolist(), dtype=object)), as_lists)


def test_rows_without_a_score_are_flagged_and_the_others_alone(guard: Guard) -> None:
    broken = rows(6)
    broken[2, 0] = np.nan
    alone = BatchGuard(guard).columns(broken[[0, 1, 3]])
    listed = [*broken[:4], None, float("nan")]
    for values in (objects(listed), listed):
        judged = BatchGuard(guard).columns(values)
        assert judged["unscorable"].tolist() == [False, False, True, False, True, True]
        assert judged["is_ood"][[2, 4, 5]].all()
        assert judged["predicted"][[2, 4, 5]].tolist() == [-1, -1, -1]
        assert [judged["name"][place] for place in (2, 4, 5)] == [None, None, None]
        assert np.isnan(judged["p_value"][[2, 4, 5]]).all()
        same({name: column[[0, 1, 3]] for name, column in judged.items()}, alone)
    strict = BatchGuard(guard, unscorable="raise")
    with pytest.raises(InputError, match="row 2"):
        strict.columns(broken)
    with pytest.raises(InputError, match="row 4 of column 'features' is missing"):
        strict.columns(listed)


def test_a_batch_of_no_rows_has_columns_of_no_rows(guard: Guard) -> None:
    full, empty = BatchGuard(guard).columns(rows()), BatchGuard(guard).columns(rows()[:0])
    assert {name: (column.dtype, len(column)) for name, column in empty.items()} == {
        name: (column.dtype, 0) for name, column in full.items()
    }
    missing = BatchGuard(guard).columns([None, None])
    assert missing["unscorable"].all()


def test_nothing_is_overwritten(guard: Guard) -> None:
    batch: dict[str, Column] = {"features": rows(), "score": np.zeros(40)}
    with pytest.raises(InputError, match="'score' already"):
        BatchGuard(guard)(batch)
    judged = BatchGuard(guard, prefix="ood_")(batch)
    assert set(judged) == {"features", "score", *(f"ood_{name}" for name in ADDED)}
    with pytest.raises(InputError, match="no column 'image', it has 'features', 'score'"):
        BatchGuard(guard, column="image")(batch)


@pytest.mark.parametrize(
    ("values", "word"),
    [
        (np.zeros((3, WIDTH), np.int64), "floating-point"),
        (np.zeros((3, WIDTH + 1), np.float32), "width"),
        (np.zeros(3, np.float32), "shape"),
        (np.array([b"png"] * 3), "dtype=object"),
        ([[1.0] * WIDTH, [1.0] * (WIDTH - 1)], "15 numbers"),
        ([["1.0"] * WIDTH], "row of numbers"),
        ([[1.0, "1.0"] * (WIDTH // 2)], "row of numbers"),
        ([[[1.0] * WIDTH]], "row of numbers"),
        ("features", "a str"),
        (7, "a int"),
    ],
)
def test_columns_of_something_else_are_refused(guard: Guard, values: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        BatchGuard(guard).columns(values)


def test_each_row_is_held_to_what_an_array_is(guard: Guard) -> None:
    judge, (one, two) = BatchGuard(guard), rows(2)
    masked = np.ma.masked_array(two, mask=[True] + [False] * (WIDTH - 1))
    for second, word in (
        (masked, "1 masked"),
        (masked.astype(object), "1 masked"),
        (np.zeros(WIDTH, np.int64), "floating-point"),
        (torch.zeros(WIDTH, dtype=torch.int64), "floating-point"),
        (np.zeros(WIDTH, np.complex64), "real numbers"),
        (np.zeros(WIDTH, np.bool_), "real numbers"),
        (torch.zeros(WIDTH).to_sparse(), "ordinary tensor"),
        (torch.zeros(1, WIDTH), "row of numbers"),
        (np.float32(1.0), "row of numbers"),
        ([torch.ones((), requires_grad=True)] * WIDTH, "row of numbers"),
    ):
        for values in ([one, second], objects([one, second])):
            with pytest.raises(InputError, match=f"(?s)row 1 of column 'features'.*{word}"):
                judge.columns(values)
    with pytest.raises(InputError, match="row 0 of column 'features': features hold 1 masked"):
        judge.columns([masked, one])
    same(judge.columns([one, np.ma.masked_array(two, mask=False)]), judge.columns(np.stack([one, two])))
    hidden = np.ma.masked_array(objects([one, two]), mask=[False, True])
    assert judge.columns(hidden)["unscorable"].tolist() == [False, True]


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_tensors_of_other_floats_and_with_gradients(guard: Guard) -> None:
    judge, plain = BatchGuard(guard), torch.from_numpy(rows())
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        narrow = plain.to(dtype)
        expected = judge.columns(narrow.float() if dtype == torch.bfloat16 else narrow.numpy())
        for values in (narrow, list(narrow), narrow.requires_grad_(), list(narrow)):
            same(judge.columns(values), expected)
    mixed = [*plain[:20].bfloat16(), *plain[20:].numpy()]
    same(judge.columns(mixed), judge.columns(torch.cat([plain[:20].bfloat16().float(), plain[20:]])))
    with pytest.raises(InputError, match="ordinary tensor"):
        judge.columns(plain.to_sparse())
    with pytest.raises(InputError, match="complex32"):
        judge.columns(plain.to(torch.complex32))


def test_a_guard_is_not_changed_and_changes_nothing_afterwards() -> None:
    guard = fitted(600)
    judge, expected = BatchGuard(guard, device="cpu"), BatchGuard(guard).columns(rows())
    guard.false_alarm_rate = 0.3
    same(judge.columns(rows()), expected)
    guard.load_state_dict(fitted(300).state_dict())
    with torch.no_grad():
        for buffer in guard.buffers():
            buffer.zero_()
    same(judge.columns(rows()), expected)
    assert not {id(part) for part in guard.modules()} & {id(part) for part in judge.guard.modules()}


def test_a_model_is_neither_moved_nor_there_twice() -> None:
    model = Tiny().eval()
    images = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    capture = th.Capture(model)
    features, _ = capture(images)
    guard = Guard.fit(features, head=capture.head, detector="ora")
    with pytest.warns(TheodoliteWarning, match="cannot know"):
        guard.attach(model)
    expected = guard.verdicts(images)
    judge = BatchGuard(guard, column="image")
    own = judge.guard.model
    assert own is not None
    pairs = list(zip(model.parameters(), own.parameters(), strict=True))
    assert all(one is not other and one.data_ptr() == other.data_ptr() for one, other in pairs)
    guard.half()
    np.testing.assert_array_equal(judge.columns(images)["p_value"], torch.as_tensor(expected.p_value))
    own.to("meta")
    assert {weight.device.type for weight in model.parameters()} == {"cpu"}


def test_a_model_that_cannot_be_copied_is_refused() -> None:
    model = Tiny().eval()
    model.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.warns(TheodoliteWarning, match="cannot know"):
        held = fitted(600).attach(model)
    with pytest.raises(InputError, match="a Tiny, cannot be copied"):
        BatchGuard(held)


# ---------------------------------------------------------------------- pictures


def test_pictures_come_encoded_as_pixels_or_as_images(picture_guard: Path) -> None:
    judge = BatchGuard(picture_guard, column="image", model=MODEL, batch_size=4)
    assert judge.guard.model is None
    content = encoded()
    pictures = [Image.open(io.BytesIO(one)).copy() for one in content]
    expected = judge.columns(objects(content))
    verdicts = judge.guard.verdicts(pictures)
    np.testing.assert_array_equal(expected["p_value"], np.asarray(verdicts.p_value))
    pixels = np.stack([np.asarray(picture) for picture in pictures])
    for values in (
        content,
        pictures,
        pixels,
        pixels[..., None],
        list(pixels),
        [bytearray(one) for one in content],
    ):
        same(judge.columns(values), expected)
    assert judge.guard.loaded is not None
    prepared = torch.stack([judge.guard.loaded.preprocess(picture) for picture in pictures])
    same(judge.columns(prepared), expected)


def test_pictures_that_cannot_be_read_are_unscorable(picture_guard: Path) -> None:
    content = encoded()
    broken = [content[0], content[1][:40], b"", None, b"no picture", content[5]]
    judged = BatchGuard(picture_guard, column="image", model=MODEL).columns(broken)
    assert judged["unscorable"].tolist() == [False, True, True, True, True, False]
    assert judged["is_ood"][1:5].all()
    with pytest.raises(UnreadableImageError, match="row 1 of column 'image'"):
        BatchGuard(picture_guard, column="image", model=MODEL, unscorable="raise").columns(broken[:2])


def test_pixels_under_a_mask_are_refused(picture_guard: Path) -> None:
    judge = BatchGuard(picture_guard, column="image", model=MODEL)
    pixels = np.ma.masked_array(np.zeros((2, 8, 8), np.uint8), mask=False)
    pixels[1, 3, 3] = np.ma.masked
    with pytest.raises(InputError, match="image hold 1 masked"):
        judge.columns(pixels)
    with pytest.raises(InputError, match="row 1 of column 'image': pixels hold 1 masked"):
        judge.columns(list(pixels))


def test_a_bomb_is_no_picture(picture_guard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures are bounded as those in files are: by what Pillow refuses to unpack."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 16)
    judged = BatchGuard(picture_guard, column="image", model=MODEL).columns(encoded(1))
    assert judged["unscorable"].all()


# ---------------------------------------------------------------------- other threads, other processes


def test_threads_and_processes_say_the_same(guard: Guard, picture_guard: Path) -> None:
    batch = {"features": rows()}
    pictures = {"image": objects(encoded())}
    of_features, of_pictures = BatchGuard(guard), BatchGuard(picture_guard, column="image", model=MODEL)
    expected = BatchGuard(guard).columns(batch["features"])
    with ThreadPoolExecutor(8) as pool:
        for judged in pool.map(of_features.columns, [batch["features"]] * 16):
            same(judged, expected)
        seen = list(pool.map(of_pictures.columns, [pictures["image"]] * 8))
    for judged in seen[1:]:
        same(judged, seen[0])
    tasks = [(pickle.dumps(of_features), batch), (pickle.dumps(of_pictures), pictures)]
    with multiprocessing.get_context("spawn").Pool(1) as processes:
        elsewhere = processes.starmap(call, tasks)
    same(elsewhere[0], expected)
    same(elsewhere[1], seen[0])


def test_it_pickles_before_and_after_its_model_is_there(picture_guard: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    judge = BatchGuard(picture_guard, column="image", model=MODEL, prefix="g_", false_alarm_rate=0.2)
    before = pickle.dumps(judge)
    expected = judge.columns(encoded())
    attached = BatchGuard(
        Guard.load(picture_guard).attach(th.load_model(MODEL)),
        column="image",
        prefix="g_",
        false_alarm_rate=0.2,
    )
    for packed in (before, pickle.dumps(judge), cloudpickle.dumps(judge), pickle.dumps(attached)):
        again = pickle.loads(packed)
        assert again.guard.model is None, "the model does not travel"
        same(again.columns(encoded()), expected)
    assert len(before) < 100_000


def test_every_kind_of_guard_comes_back_the_same() -> None:
    features, labels = clusters(400, 0)
    for detector in ("knn?k=3", "relative-energy", "ora+react:90", "nnguide?fraction=0.5"):
        judge = BatchGuard(Guard.fit(features, labels, head=head(), detector=detector, false_alarm_rate=0.1))
        again = pickle.loads(pickle.dumps(judge))
        same(again.columns(rows()), judge.columns(rows()))
        assert again.guard.false_alarm_rate == 0.1
    headless = BatchGuard(Guard.fit(features, detector="knn?k=3"))
    judged = pickle.loads(pickle.dumps(headless)).columns(rows())
    assert set(judged["name"].tolist()) == {None}


def test_a_model_without_a_name_does_not_travel() -> None:
    model = Tiny().eval()
    capture = th.Capture(model)
    images = torch.rand(200, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    features, _ = capture(images)
    guard = Guard.fit(features, head=capture.head, detector="ora")
    with pytest.warns(TheodoliteWarning, match="cannot know"):
        guard.attach(model)
    judge = BatchGuard(guard, column="image")
    assert judge.columns(images)["p_value"].all()
    with pytest.raises(InputError, match="cannot be pickled"):
        pickle.dumps(judge)


def test_bytes_that_changed_on_the_way_are_refused(guard: Guard) -> None:
    packed = BatchGuard(guard)._packed()
    damaged = bytearray(packed.guard)
    damaged[-9] ^= 1
    restore, _ = BatchGuard(guard).__reduce__()
    with pytest.raises(th.TheodoliteError, match="damaged"):
        restore(packed._replace(guard=bytes(damaged)))


def test_what_cannot_be_asked_of_it(guard: Guard, tmp_path: Path) -> None:
    guard.save(tmp_path / "guard.safetensors")
    for wrong, word in (
        ({"unscorable": "ignore"}, "unscorable"),
        ({"batch_size": 0}, "batch_size"),
        ({"false_alarm_rate": 2.0}, "false-alarm rate"),
    ):
        with pytest.raises(InputError, match=word):
            BatchGuard(tmp_path / "guard.safetensors", **wrong)
    with pytest.raises(InputError, match="does not know its model"):
        BatchGuard(tmp_path / "guard.safetensors", column="image").columns(encoded())
