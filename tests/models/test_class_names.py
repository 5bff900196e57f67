"""Names of classes as a user gives them: a file, or a list; nothing else is taken for either."""

from __future__ import annotations

from pathlib import Path

import pytest

from theodolite.core.errors import InputError
from theodolite.models.class_names import _names_in_files, _names_of_packages, read_names


def test_a_file_has_a_name_a_line(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\n\n  dog \nKuh, Färse\n", encoding="utf-8")
    assert read_names(str(tmp_path / "names.txt")) == ("cat", "dog", "Kuh, Färse")


def test_a_list_has_commas_and_any_length() -> None:
    assert read_names("cat, dog,cow") == ("cat", "dog", "cow")
    assert len(read_names(",".join(f"class {index}" for index in range(1_000)))) == 1_000


def test_what_is_neither_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("Kuh\nFärse\n".encode("latin-1"))
    with (tmp_path / "large.txt").open("wb") as file:
        file.truncate(2**24 + 1)
    for value, message in (
        (str(tmp_path / "latin.txt"), "is not a text file in UTF-8"),
        (str(tmp_path / "large.txt"), "too large for names of classes: 16,777,217 bytes"),
        (str(tmp_path / "absent.txt"), "gives 1 class name: pass a text file"),
        ("", "gives 0 class name"),
        ("\0", "gives 1 class name"),
    ):
        with pytest.raises(InputError, match=message):
            read_names(value)


def test_a_file_that_is_no_text_gives_no_names(tmp_path: Path) -> None:
    path = tmp_path / "names.bin"
    path.write_bytes(b"cat\n\x00\x01dog\n")
    with pytest.raises(InputError, match="is no text, since it holds a zero byte"):
        read_names(str(path))
    path.write_text("Hündchen, klein\n犬\r\n\n  \nсобака\n", encoding="utf-8")
    assert read_names(str(path)) == ("Hündchen, klein", "犬", "собака")


def test_imagenet_names_from_files_are_those_of_the_package() -> None:
    names = _names_of_packages()
    if names is None or _names_in_files() is None:
        pytest.skip("pip install 'theodolite[vision]'")
    assert _names_in_files() == names
