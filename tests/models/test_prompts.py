"""Prompts and templates: what is averaged, what is refused, what is warned of; none of it needs a model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from theodolite.core.errors import InputError, TheodoliteWarning
from theodolite.models.prompts import (
    PROMPT,
    TextEncoder,
    read_templates,
    templates_of,
    text_head,
    warn_of_doubles,
)

SEEN: list[list[str]] = []


def embed(texts: list[str]) -> torch.Tensor:
    """Numbers that hang on the letters of a text."""
    SEEN.append(texts)
    return torch.tensor([[text.count(letter) + 0.5 for letter in "acdgot "] for text in texts])


ENCODER = TextEncoder(embed, lambda text: len(text.split()), limit=8)


def test_several_templates_are_averaged_on_the_sphere() -> None:
    names, templates = ("cat", "dog"), ("a {}", "the {class} of a cat")
    head = text_head(ENCODER, names, templates)
    parts = [torch.nn.functional.normalize(embed([f"a {n}" for n in names]).double())]
    parts += [torch.nn.functional.normalize(embed([f"the {n} of a cat" for n in names]).double())]
    expected = torch.nn.functional.normalize(parts[0] + parts[1])
    assert head.unit_features
    torch.testing.assert_close(head.weight.double(), expected, rtol=0, atol=1e-6)
    one = text_head(ENCODER, names, templates[:1])
    torch.testing.assert_close(one.weight.double(), parts[0], rtol=0, atol=1e-6)


def test_texts_go_in_a_few_at_a_time_and_none_is_cut_off() -> None:
    SEEN.clear()
    names = [f"cat {number}" for number in range(300)]
    assert ENCODER(names).shape == (300, 7)
    assert [len(texts) for texts in SEEN] == [256, 44]
    with pytest.raises(InputError, match="has 9 tokens, and the model reads 8: shorten the name"):
        ENCODER(["cat", "a b c d e f g h i"])


def test_templates_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "templates.txt"
    file.write_text("a {class}\n\n  art of {} \n", encoding="utf-8")
    assert read_templates(str(file)) == templates_of({"templates": str(file)}) == ("a {class}", "art of {}")
    assert templates_of({}) == (PROMPT,)
    assert templates_of({"prompt": "a {}"}) == ("a {}",)
    file.write_text("a {class}\na photo\n")
    with pytest.raises(InputError, match=r"templates\.txt, line 2, must contain \{class\}"):
        read_templates(str(file))
    file.write_text("a {}\na {}\n")
    with pytest.raises(InputError, match=r"'a \{\}' twice"):
        read_templates(str(file))
    file.write_text("a {}\na {class}\n")
    with pytest.raises(InputError, match=r"'a \{\}' twice"):
        read_templates(str(file))
    file.write_text("a {class}\na {} of a {class}\n")
    with pytest.raises(InputError, match=r"line 2, has both \{class\} and \{\}"):
        read_templates(str(file))
    file.write_text("\n")
    with pytest.raises(InputError, match="holds no template"):
        read_templates(str(file))
    with pytest.raises(InputError, match="is no file"):
        read_templates("a {}")
    with pytest.raises(InputError, match="give one of both"):
        templates_of({"templates": str(file), "prompt": "a {}"})
    with pytest.raises(InputError, match=r"prompt must contain \{class\}"):
        templates_of({"prompt": "a photo"})


def test_one_name_for_two_classes_is_warned_of() -> None:
    with pytest.warns(TheodoliteWarning, match="classes 0 and 2 are both called 'Cat'"):
        warn_of_doubles(["cat", "dog", "Cat"])
    warn_of_doubles(["cat", "dog"])
