"""Views of pictures: what they are made of, what they depend on, and colours beside torchvision's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from theodolite.core.compat import import_torchvision
from theodolite.core.errors import InputError, MissingExtraError
from theodolite.training.augmentation import (
    KINDS,
    Augmentation,
    brightened,
    contrasted,
    cropped,
    grey,
    jittered,
    saturated,
    turned,
)
from theodolite.training.seeds import generator_at, seed_at


@pytest.fixture(scope="module")
def images() -> Tensor:
    return torch.randint(0, 256, (40, 3, 9, 7), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_a_view_depends_on_its_generator_alone(images: Tensor) -> None:
    change = Augmentation(KINDS)
    one, again, other = (change(images, generator_at(0, 1, step)) for step in (2, 2, 3))
    assert one.dtype == torch.uint8
    assert one.shape == images.shape
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_every_crop_is_a_window_of_the_padded_picture(images: Tensor) -> None:
    padding = 2
    found = cropped(images, padding, generator_at(0))
    padded = torch.nn.functional.pad(images, (padding,) * 4)
    places = set()
    for picture, wide in zip(found, padded, strict=True):
        windows = {
            (top, left): wide[:, top : top + 9, left : left + 7]
            for top in range(2 * padding + 1)
            for left in range(2 * padding + 1)
        }
        matching = [place for place, window in windows.items() if torch.equal(window, picture)]
        assert len(matching) == 1
        places.update(matching)
    assert len(places) > 10, "pictures are cropped one by one, not all alike"


def test_some_pictures_are_flipped_and_the_others_stay(images: Tensor) -> None:
    found = Augmentation(("flip",))(images, generator_at(3))
    kinds = [
        "stays" if torch.equal(new, old) else "flips" if torch.equal(new, old.flip(-1)) else "other"
        for new, old in zip(found, images, strict=True)
    ]
    assert set(kinds) == {"stays", "flips"}


def test_grey_has_three_equal_channels_of_the_brightness(images: Tensor) -> None:
    found = grey(images)
    assert torch.equal(found[:, 0], found[:, 1])
    red, green, blue = images.double().unbind(dim=1)
    expected = 0.2989 * red + 0.587 * green + 0.114 * blue
    assert float((found[:, 2].double() - expected).abs().max()) <= 0.5 + 1e-4
    one = images[:, :1]
    assert torch.equal(grey(one), one)


def test_colours_leave_a_fifth_alone_and_grey_pictures_without_colour(images: Tensor) -> None:
    many = images.repeat(25, 1, 1, 1)
    same = (jittered(many, generator_at(1)) == many).flatten(1).all(dim=1)
    assert 0.15 < float(same.double().mean()) < 0.25
    flat = images[:, :1].expand(-1, 3, -1, -1)
    found = jittered(flat, generator_at(2)).int()
    assert int((found.amax(dim=1) - found.amin(dim=1)).max()) <= 1, "no colour comes from nowhere"
    one = jittered(images[:, :1], generator_at(2))
    assert one.shape == (40, 1, 9, 7)
    assert not torch.equal(one, images[:, :1])


@pytest.mark.parametrize(
    ("ours", "theirs", "amounts"),
    [
        (brightened, "adjust_brightness", (0.6, 1.0, 1.4)),
        (contrasted, "adjust_contrast", (0.6, 1.0, 1.4)),
        (saturated, "adjust_saturation", (0.6, 1.0, 1.4)),
        (turned, "adjust_hue", (-0.1, 0.0, 0.07, 0.5)),
    ],
)
def test_colours_are_those_of_torchvision(
    images: Tensor, ours: Callable[[Tensor, Tensor], Tensor], theirs: str, amounts: tuple[float, ...]
) -> None:
    try:
        import_torchvision()
    except MissingExtraError as error:
        pytest.skip(str(error))
    from torchvision.transforms import functional

    values = images.float() / 255
    for amount in amounts:
        found = ours(values, torch.full((len(values),), amount))
        expected = getattr(functional, theirs)(values, amount)
        assert float((found - expected).abs().max()) < 1e-4


def test_what_is_no_augmentation_is_refused(images: Tensor) -> None:
    with pytest.raises(InputError, match="'blur' is unknown; there are: crop, flip, colour, grey"):
        Augmentation(("crop", "blur"))
    with pytest.raises(InputError, match="named twice"):
        Augmentation(("crop", "crop"))
    with pytest.raises(InputError, match="padding must be at least 1"):
        Augmentation(("crop",), 0)
    with pytest.raises(InputError, match=r"bytes of shape \(N, C, H, W\), got torch.float32"):
        Augmentation(("crop",))(images.float(), generator_at(0))


def test_places_have_seeds_of_their_own() -> None:
    places = [(seed, epoch, step) for seed in range(3) for epoch in range(12) for step in range(12)]
    assert len({seed_at(*place) for place in places}) == len(places)
    assert seed_at(1, 23) != seed_at(12, 3)
