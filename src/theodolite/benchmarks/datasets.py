"""The data sets of the protocols: what each must look like, and where to get it. Plain data.

A data set names its splits. A split lists the places below the data root where it is looked for, first match
wins, with the number of samples that every published figure was measured on. ``listing`` is the sha256 over
the listing of the samples, where we have seen the original; other content is refused under the same name.
Of a list of pictures ``digest`` is what the sha256 of the list file itself begins with.
One of your own joins them with `register_dataset`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import InputError


@dataclass(frozen=True)
class Split:
    """One part of a data set. ``kind`` is how to open it where that is not plain from the path.

    ``count`` is None where nobody has told us. The pictures of a list lie in the folder ``images``, which is
    beside the folder of all lists.
    """

    count: int | None
    places: tuple[str, ...]
    kind: str | None = None
    listing: str | None = None
    images: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Dataset:
    """A data set. ``derived`` names the set it is computed from, which is then all that must be present."""

    name: str
    title: str
    splits: dict[str, Split]
    obtain: str
    derived: str | None = None

    def split(self, name: str) -> Split:
        if name not in self.splits:
            raise InputError(f"{self.name} has no split {name!r}; it has {', '.join(self.splits)}")
        return self.splits[name]


def _idx(folder: str, part: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{part}-images-idx3-ubyte{suffix}" for suffix in (".gz", ""))


def _outliers(name: str, title: str, count: int, places: tuple[str, ...], obtain: str) -> Dataset:
    """A set that is only ever OOD: one split, and its own labels do not matter."""
    return Dataset(name, title, {"test": Split(count, places, kind="flat")}, obtain)


_HUANG = "http://pages.cs.wisc.edu/~huangrui/imagenet_ood_dataset"
_RELEASE = "the OOD sets released with ODIN and Energy, also used by KNN and fDBD"

_KNOWN = (
    Dataset(
        "cifar10",
        "CIFAR-10",
        {
            "train": Split(
                50_000, ("cifar10/data_batch_*", "cifar-10-batches-py/data_batch_*", "cifar10/train.npz")
            ),
            "test": Split(
                10_000, ("cifar10/test_batch", "cifar-10-batches-py/test_batch", "cifar10/test.npz")
            ),
        },
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz, unpacked",
    ),
    Dataset(
        "svhn",
        "SVHN",
        {"test": Split(26_032, ("svhn/test.npz", "svhn/test", "svhn"))},
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat, then np.savez('svhn/test.npz', "
        "images=scipy.io.loadmat('test_32x32.mat')['X'].transpose(3, 0, 1, 2))",
    ),
    _outliers(
        "isun",
        "iSUN",
        8_925,
        ("isun", "iSUN", "iSUN/iSUN_patches"),
        f"iSUN.tar.gz of {_RELEASE}: https://www.dropbox.com/s/ssz7qxfqae0cca5/iSUN.tar.gz",
    ),
    _outliers(
        "places365",
        "Places365",
        10_000,
        ("places365", "places365/test_subset"),
        f"the 10,000 images of {_RELEASE}; originals at http://places2.csail.mit.edu/download.html",
    ),
    _outliers(
        "textures",
        "Textures (DTD)",
        5_640,
        ("textures", "dtd/images"),
        "https://www.robots.ox.ac.uk/~vgg/data/dtd/download/dtd-r1.0.1.tar.gz",
    ),
    Dataset(
        "imagenet",
        "ImageNet-1k",
        {
            "train": Split(1_281_167, ("imagenet/train",)),
            "test": Split(50_000, ("imagenet/val",)),
        },
        "https://image-net.org (ILSVRC 2012, registration); sort val into one folder a class",
    ),
    _outliers(
        "inaturalist", "iNaturalist", 10_000, ("inaturalist", "iNaturalist"), f"{_HUANG}/iNaturalist.tar.gz"
    ),
    _outliers("sun", "SUN", 10_000, ("sun", "SUN"), f"{_HUANG}/SUN.tar.gz"),
    _outliers("places", "Places", 10_000, ("places", "Places"), f"{_HUANG}/Places.tar.gz"),
    _outliers(
        "ninco",
        "NINCO",
        5_879,
        ("ninco", "NINCO/NINCO_OOD_classes"),
        "https://zenodo.org/record/8013288 (NINCO_all.tar.gz, the folder NINCO_OOD_classes)",
    ),
    _outliers(
        "ssb-hard",
        "SSB-hard",
        49_000,
        ("ssb-hard", "ssb_hard"),
        "the ImageNet-21k classes listed at https://github.com/sgvaze/SSB; OpenOOD's ssb_hard.zip has them",
    ),
    Dataset(
        "mnist",
        "MNIST",
        {
            "train": Split(
                60_000,
                _idx("mnist", "train"),
                listing="a0cc72b1f3472df2ece7a395b9cbde8e61e31acfa8be1d9133b47b7a7bac9906",
            ),
            "test": Split(
                10_000,
                _idx("mnist", "t10k"),
                listing="e2781c0647a33958a4420c00438c2bdda488a74cb35190b7f7b1c65c72d140c9",
            ),
        },
        "https://yann.lecun.com/exdb/mnist/, the four .gz files as they are",
    ),
    Dataset(
        "fashion-mnist",
        "Fashion-MNIST",
        {
            "test": Split(
                10_000,
                _idx("fashion-mnist", "t10k"),
                listing="47d2ca56d1d3c6bd740bc3b1b2fe9b01ea6d2c9819b209232b02cc5940d3d759",
            )
        },
        "https://github.com/zalandoresearch/fashion-mnist, the t10k files as they are",
    ),
    Dataset(
        "notmnist",
        "notMNIST",
        {
            "test": Split(
                10_000,
                _idx("notmnist", "t10k"),
                listing="3af242752981758720e775999c24a3e0acbcb01e0957bdef5fa85e07155fcfed",
            )
        },
        "http://yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html; 10,000 letters as idx files "
        "(https://github.com/davidflanagan/notMNIST-to-MNIST)",
    ),
    Dataset(
        "negatives",
        "MNIST negatives",
        {
            "test": Split(
                10_000, (), listing="daa97d85aad4778e402fb49ffe323907d80eb563f365e0cea00242535122095d"
            )
        },
        "nothing to fetch: 1 − x of the MNIST test images",
        derived="mnist",
    ),
)
_by_name: dict[str, Dataset] = {}


def register_dataset(new: Dataset) -> Dataset:
    """Enter a data set under its name."""
    if _by_name.setdefault(new.name, new) != new:
        raise InputError(f"a data set is called {new.name!r} already: choose another name")
    return new


for _dataset in _KNOWN:
    register_dataset(_dataset)


def list_datasets() -> list[Dataset]:
    """All data sets, in the order they were entered."""
    return list(_by_name.values())


def dataset(name: str) -> Dataset:
    """The data set of a name."""
    if name not in _by_name:
        raise InputError(f"no data set is called {name!r}; known: {', '.join(_by_name)}")
    return _by_name[name]
