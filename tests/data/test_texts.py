"""Texts in files: columns, labels, what is no text, and text files that are lists of pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from theodolite.core.errors import FormatError, InputError, UnreadableImageError
from theodolite.data import open_source
from theodolite.data.formats import recognise
from theodolite.data.relabelled import labelled_as
from theodolite.data.sample import TEXTS, held_by, labels_of
from theodolite.data.sampling import sample_of


def rows(path: Path, *entries: object) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


def test_json_lines_with_names(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "a.jsonl",
        {"text": "play it", "label": "music"},
        {"text": "bezahle später", "label": "bank", "id": "mine"},
        {"text": "who", "label": None},
    )
    source = open_source(path)
    assert held_by(source) == TEXTS
    assert source.class_names == ("bank", "music")
    assert [source[place].content for place in range(3)] == ["play it", "bezahle später", "who"]
    assert labels_of(source) == [1, 0, None]
    assert [source[place].id for place in range(3)] == ["a.jsonl#0", "mine", "a.jsonl#2"]
    assert held_by(sample_of(source, 2)) == TEXTS
    first = list(source.listing())
    rows(path, {"text": "play it!", "label": "music"}, {"text": "x", "label": "bank"})
    assert next(iter(open_source(path).listing())) != first[0]


def test_numbers_that_are_written_as_text_are_numbers(tmp_path: Path) -> None:
    """In alphabetic order "10" would be the class before "2"."""
    entries = [{"sentence": f"s {label}", "label": str(label)} for label in (10, 2, 0)]
    source = open_source(rows(tmp_path / "a.jsonl", *entries))
    assert (labels_of(source), source.class_names) == ([10, 2, 0], None)
    with pytest.raises(InputError, match="names as well as numbers"):
        open_source(rows(tmp_path / "b.jsonl", {"text": "a", "label": "1"}, {"text": "b", "label": "one"}))


def test_tables(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('﻿utterance,intent\n"pay, please\nnow",bank\n12,\n', encoding="utf-8")
    source = open_source(tmp_path / "a.csv")
    assert [source[place].content for place in range(2)] == ["pay, please\nnow", "12"]
    assert (labels_of(source), source.class_names) == ([0, None], ("bank",))
    (tmp_path / "a.tsv").write_text("text\tlabel\na, b\t1\nc\t-1\n")
    tabs = open_source(tmp_path / "a.tsv")
    assert ([tabs[0].content, tabs[1].content], labels_of(tabs)) == (["a, b", "c"], [1, None])


def test_names_of_columns_may_have_blanks_around_them(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text, label\na, x\nb, y\n")
    source = open_source(tmp_path / "a.csv")
    assert (labels_of(source), source.class_names) == ([0, 1], ("x", "y"))


def test_whole_numbers_as_pandas_writes_them_beside_a_missing_one(tmp_path: Path) -> None:
    """As names, 10.0 would be the class before 2.0."""
    (tmp_path / "a.csv").write_text("text,label\na,0.0\nb,10.0\nc,2.0\nd,\n")
    source = open_source(tmp_path / "a.csv")
    assert (labels_of(source), source.class_names) == ([0, 10, 2, None], None)
    (tmp_path / "b.csv").write_text("text,label\na,4.0\nb,4.5\n")
    with pytest.raises(InputError, match="names as well as numbers"):
        open_source(tmp_path / "b.csv")


def test_ids_that_repeat_are_places_in_the_file(tmp_path: Path) -> None:
    entries = [{"text": "a", "id": 7}, {"text": "b", "id": 8}, {"text": "c"}]
    source = open_source(rows(tmp_path / "a.jsonl", *entries))
    assert [source[place].id for place in range(3)] == ["7", "8", "a.jsonl#2"]
    source = open_source(rows(tmp_path / "a.jsonl", *entries, {"text": "d", "id": "8"}))
    assert [source[place].id for place in range(4)] == [f"a.jsonl#{place}" for place in range(4)]


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"turn on the light\r\nplay\r\n\n")
    source = open_source(tmp_path / "a.txt")
    assert [source[place].content for place in range(len(source))] == ["turn on the light", "play"]
    assert labels_of(source) == [None, None]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("what is the weather", "text"),
        ("hello", "text"),
        ("turn to channel 3", "text"),
        ("x" * 5000, "text"),
        ("a" * 300 + " b", "text"),
        ("cat/1.png 3", "list"),
        ("cat/1.JPEG", "list"),
        ("some folder/a.png 0", "list"),
        ("images/000123 7", "list"),
        ("present file 2", "list"),
        ("", "list"),
    ],
)
def test_a_text_file_is_a_list_or_holds_texts(tmp_path: Path, content: str, kind: str) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "present file", "PNG")
    (tmp_path / "a.txt").write_text(f"\n{content}\nmore\n")
    if not content:
        (tmp_path / "a.txt").write_text("")
    found = recognise(tmp_path / "a.txt")
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize("empty", ["", "  \t", None, 7, ["a"]])
def test_what_is_no_text_is_unreadable_like_a_broken_picture(tmp_path: Path, empty: object) -> None:
    source = open_source(rows(tmp_path / "a.jsonl", {"text": "a"}, {"text": empty}))
    assert len(list(source.listing())) == 2
    with pytest.raises(UnreadableImageError, match=r"a\.jsonl#1 is no text .* --skip-unreadable") as caught:
        source[1]
    assert caught.value.path == "a.jsonl#1"


def test_empty_lines_between_texts_are_empty_texts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first one\n\nthird one\n")
    source = open_source(tmp_path / "a.txt")
    with pytest.raises(UnreadableImageError, match=r"a\.txt#1 is no text \(it is empty\)"):
        source[1]
    assert source[2].content == "third one"


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.jsonl", b"{", "line 1 is no JSON"),
        ("a.jsonl", b"[" * 100_000, "line 1 is n"),
        ("a.jsonl", b"[1]", "line 1 is a list"),
        ("a.jsonl", b"\n", "holds no texts"),
        ("a.jsonl", b'{"text": "\xff"}', "no text in UTF-8"),
        ("a.jsonl", b'{"n": 1}', "no column holds texts"),
        (
            "a.jsonl",
            b'{"premise": "a", "hypothesis": "b"}',
            "2 columns may hold the texts .*premise, hypothesis",
        ),
        ("a.jsonl", b'{"text": "a", "label": 1.5}', "not a whole number"),
        ("a.jsonl", b'{"text": "a", "label": true}', "not a whole number"),
        ("a.csv", b"text,label\na,b,c\n", "row 1 has 3 cells, expected 2"),
        ("a.csv", b"text,text\na,b\n", "two columns of one name"),
        ("a.csv", b'text\n"a', "no table"),
        ("a.csv", b"text\n", "holds no texts"),
        ("a.csv", b"", "holds no texts"),
        ("a.csv", b"text;label\na;b\n", "semicolons between its cells"),
        ("a.csv", b"text\tlabel\na\tb\n", r"tabs between its cells .* ends in \.tsv"),
        ("a.tsv", b"text,label\na,b\n", "commas between its cells"),
        ("a.csv", b"pay my bill\nplay it\n", "its first row 'pay my bill' may be its name or a text"),
        ("a.csv", "text\nspäter\n".encode("cp1252"), "no text in UTF-8"),
        ("a.csv", "text\nspäter\n".encode("utf-16"), "no text in UTF-8"),
        (
            "a.jsonl",
            b'{"note": "a"}\n' * 200 + b'{"remark": "b"}\n',
            "2 columns may hold the texts .*note, remark",
        ),
        ("data_full.json", b"{}", "several splits: say which, --kind"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, name: str, content: bytes, match: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises((InputError, FormatError), match=match):
        open_source(tmp_path / name)


def test_labels_are_numbered_as_the_model_numbers_its_classes(tmp_path: Path) -> None:
    path = rows(
        tmp_path / "a.jsonl", {"text": "a", "label": "music"}, {"text": "b", "label": "bank"}, {"text": "c"}
    )
    source = open_source(path)
    known = labelled_as(source, ("music", "travel", "bank"))
    assert labels_of(source) == [1, 0, None]
    assert labels_of(known) == [0, 2, None] == [known[place].label for place in range(3)]
    assert known.class_names == ("music", "travel", "bank")
    assert [line.split("\t")[1] for line in known.listing()] == ["0", "2", "-"]
    with pytest.warns(
        UserWarning, match=r"no class of the name 'bank' \(it has 'travel', 'music'\): such a label"
    ):
        partly = labelled_as(source, ("travel", "music"))
    assert labels_of(partly) == [1, None, None] == [partly[place].label for place in range(3)]
    assert [line.split("\t")[1] for line in partly.listing()] == ["1", "-", "-"]
    assert labelled_as(source, ("LABEL_0", "LABEL_1")) is source
    assert labelled_as(source, ("bank", "bank", "music")) is source
    assert labelled_as(source, None) is source


def test_clinc150_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data_full.json"
    splits = {
        "train": [["pay now", "pay"], ["book it", "book"]],
        "val": [["pay", "pay"]],
        "test": [["pay it", "pay"]],
        "oos_train": [["never used", "oos"]],
        "oos_val": [["nor this", "oos"]],
        "oos_test": [["who am i", "oos"]],
    }
    path.write_text(json.dumps(splits))
    found = {kind: open_source(path, kind=f"clinc150-{kind}") for kind in ("train", "val", "test", "oos")}
    assert {kind: labels_of(source) for kind, source in found.items()} == {
        "train": [1, 0],
        "val": [1],
        "test": [1],
        "oos": [None],
    }
    assert all(source.class_names == ("book", "pay") for source in found.values())
    assert (found["oos"][0].content, found["oos"][0].id) == ("who am i", "oos_test#0")
    others: list[object] = [{**splits, "test": []}, {**splits, "test": [["a"]]}, {"train": 3}, []]
    for broken in others:
        path.write_text(json.dumps(broken))
        with pytest.raises(FormatError, match="not CLINC150's data_full"):
            open_source(path, kind="clinc150-test")


def test_hugging_face_data_sets_of_texts(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="pip install 'theodolite[hub]'")
    kinds = datasets.Features(
        {
            "idx": datasets.Value("string"),
            "sentence": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["x", "y"]),
        }
    )
    columns = {"idx": ["p", "q"], "sentence": ["one", "two"], "label": [1, -1]}
    dataset = datasets.Dataset.from_dict(columns, features=kinds)
    dataset.save_to_disk(tmp_path / "saved")
    for source in (open_source(dataset), open_source(tmp_path / "saved")):
        assert (held_by(source), source.class_names, labels_of(source)) == (TEXTS, ("x", "y"), [1, None])
        assert [source[0].content, source[1].content] == ["one", "two"]
        assert len(set(source.listing())) == 2
    numbers = datasets.Dataset.from_dict({"text": ["a", ""], "intent": [3, 0]})
    source = open_source(numbers)
    assert labels_of(source) == [3, 0]
    with pytest.raises(UnreadableImageError, match="row 1 of the data set is no text"):
        source[1]
    for column, given, numbers, names in (
        ("label", ["y", "x"], [1, 0], ("x", "y")),
        ("Intent", ["10", "2"], [10, 2], None),
        ("Class", [4, None], [4, None], None),
    ):
        source = open_source(datasets.Dataset.from_dict({"text": ["a", "b"], column: given}))
        assert (labels_of(source), source.class_names) == (numbers, names)
        assert [source[place].label for place in range(2)] == numbers
    with pytest.raises(InputError, match="labels one of whole numbers or of names"):
        open_source(datasets.Dataset.from_dict({"text": ["a", "b"], "label": [1.0, None]}))
    pairs = datasets.Dataset.from_dict({"premise": ["a"], "hypothesis": ["b"]})
    with pytest.raises(InputError, match="2 columns may hold the texts"):
        open_source(pairs)
