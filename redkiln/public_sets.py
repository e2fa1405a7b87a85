"""Public data sets that are downloaded: their files, and where these are."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class PublicSet:
    """A public data set.

    Attributes:
        files: All of its files.
        sources: Addresses below which each file is stored under its name.
    """

    files: tuple[PublicFile, ...]
    sources: tuple[str, ...]


PUBLIC_SETS: dict[str, PublicSet] = {
    "mnist": PublicSet(
        files=(
            PublicFile(
                "train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                9_912_422,
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                28_881,
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                1_648_877,
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                4_542,
            ),
        ),
        sources=(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
    ),
    "fashion-mnist": PublicSet(
        files=(
            PublicFile(
                "train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                26_421_880,
            ),
            PublicFile(
                "train-labels-idx1-ubyte.gz",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                29_515,
            ),
            PublicFile(
                "t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                4_422_102,
            ),
            PublicFile(
                "t10k-labels-idx1-ubyte.gz",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                5_148,
            ),
        ),
        sources=(
            "https://fashion-mnist.s3.eu-central-1.amazonaws.com",
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        ),
    ),
    # The binary version: the Python version consists of pickles, which can run arbitrary code.
    "cifar-10": PublicSet(
        files=(
            PublicFile(
                "cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                170_052_171,
            ),
        ),
        sources=("https://www.cs.toronto.edu/~kriz",),
    ),
}


def find_public_set(name: str, sets: Mapping[str, PublicSet] = PUBLIC_SETS) -> PublicSet | None:
    """Return the public set with a built-in data set's name; None if the worker generates it."""
    return sets.get(name.removeprefix("builtin:"))
