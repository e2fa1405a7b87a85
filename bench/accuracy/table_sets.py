"""Tables that need no network: scikit-learn's, and generated ones with fixed seeds.

The small ones of scikit-learn and `survivors` are split three times, because a score on 300 test
rows depends on the split; the other generated ones have at least 600 test rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split

SMALL_SPLITS = 3
TEST_SHARE = 0.25
"""Share of the test rows in a small table."""


@dataclass(frozen=True)
class Rows:
    """A table with its split.

    Attributes:
        numbers: (N, F) float64, NaN if missing.
        codes: (N, K) int64, category of each categorical column.
        targets: (N,) int64 labels, or float64 values.
        num_train: Number of training rows, which come first.
    """

    numbers: NDArray[np.float64]
    codes: NDArray[np.int64]
    targets: NDArray[Any]
    num_train: int

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return bool(self.targets.dtype.kind == "f")


@dataclass(frozen=True)
class TableSet:
    """A table to learn.

    Attributes:
        load: Returns numbers, codes or None, and targets.
        num_test: Test rows; None for a quarter.
        num_splits: How often it is split.
    """

    name: str
    load: Callable[[], tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any]]]
    num_test: int | None = None
    num_splits: int = 1

    def split(self, seed: int) -> Rows:
        """Return the table in the order of one of its splits."""
        numbers, codes, targets = self.load()
        # Digits are integers, and so are the targets of diabetes, which are measurements.
        is_regression = targets.dtype.kind == "f"
        train, test = train_test_split(
            np.arange(len(targets)),
            test_size=self.num_test or TEST_SHARE,
            random_state=seed,
            stratify=None if is_regression else targets,
        )
        order = np.concatenate([train, test])
        if codes is None:
            codes = np.zeros((len(targets), 0), np.int64)
        return Rows(numbers[order].astype(np.float64), codes[order], targets[order], len(train))


def list_table_sets(*, seed: int = 0) -> list[TableSet]:
    """Return all tables.

    Args:
        seed: Seed of the generated ones; another one than 0 gives tables that no setting of a model
            was chosen with.
    """
    call = partial(_call, seed)
    classes = partial(call, datasets.make_classification)
    return [
        _builtin("breast cancer", datasets.load_breast_cancer),
        _builtin("wine", datasets.load_wine),
        _builtin("digits", datasets.load_digits, num_splits=1),
        _builtin("diabetes", datasets.load_diabetes),
        TableSet(
            "1,000 x 20, 2 classes",
            partial(classes, 2000, n_features=20, n_informative=5, n_clusters_per_class=3),
            1000,
        ),
        TableSet(
            "1,000 x 25, 4 classes",
            partial(classes, 2000, n_features=25, n_informative=8, n_classes=4),
            1000,
        ),
        TableSet(
            "wide: 400 x 300",
            partial(classes, 1400, n_features=300, n_informative=10, n_redundant=10, class_sep=1.5),
            1000,
        ),
        TableSet(
            "99:1 of 3,000",
            partial(
                classes,
                6000,
                n_features=15,
                n_informative=6,
                weights=[0.99],
                flip_y=0.001,
                class_sep=1.2,
            ),
            3000,
        ),
        TableSet("survivors", partial(_make_survivors, seed), 300, num_splits=SMALL_SPLITS),
        TableSet("99:1, mixed columns", partial(_make_rare, 5 + seed), 3000),
        TableSet("moons", partial(call, datasets.make_moons, 1500, noise=0.3), 750),
        TableSet("hastie 10.2", partial(_load_hastie, seed), 1500),
        TableSet(
            "gaussian quantiles",
            partial(
                call, datasets.make_gaussian_quantiles, n_samples=2000, n_features=8, n_classes=3
            ),
            1000,
        ),
        TableSet("interactions", partial(_make_interactions, 3 + seed), 1200),
        TableSet(
            "mixed columns, 2 classes",
            partial(make_mixed, 1 + 2 * seed, is_regression=False),
            1250,
        ),
        TableSet(
            "friedman 1",
            partial(call, datasets.make_friedman1, 2000, n_features=10, noise=1),
            1000,
        ),
        TableSet("friedman 2", partial(call, datasets.make_friedman2, 2000, noise=100), 1000),
        TableSet("friedman 3", partial(call, datasets.make_friedman3, 2000, noise=0.1), 1000),
        TableSet(
            "wide values: 400 x 300",
            partial(call, datasets.make_regression, 1400, 300, n_informative=15, noise=50),
            1000,
        ),
        TableSet(
            "sparse uncorrelated",
            partial(call, datasets.make_sparse_uncorrelated, 2000, n_features=10),
            1000,
        ),
        TableSet(
            "mixed columns, values", partial(make_mixed, 2 + 2 * seed, is_regression=True), 1250
        ),
    ]


def _builtin(name: str, load: Callable[[], Any], *, num_splits: int = SMALL_SPLITS) -> TableSet:
    def read() -> tuple[NDArray[Any], None, NDArray[Any]]:
        bunch = load()
        return bunch.data, None, bunch.target

    return TableSet(name, read, num_splits=num_splits)


def _call(
    seed: int, make: Callable[..., Any], *arguments: Any, **options: Any
) -> tuple[NDArray[Any], None, NDArray[Any]]:
    numbers, targets = make(*arguments, random_state=seed, **options)
    return numbers, None, targets


def _load_hastie(seed: int) -> tuple[NDArray[Any], None, NDArray[Any]]:
    numbers, targets = datasets.make_hastie_10_2(3000, random_state=seed)
    return numbers, None, (targets > 0).astype(np.int64)


def _make_interactions(seed: int) -> tuple[NDArray[Any], None, NDArray[Any]]:
    """Generate a target of products, whose factors say nothing by themselves."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(2400, 20))
    score = x[:, 0] * x[:, 1] + np.sign(x[:, 2]) * x[:, 3] + 0.5 * x[:, 4]
    return x, None, (score + 0.3 * rng.normal(size=len(x)) > 0).astype(np.int64)


def _make_survivors(seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Generate passengers of a ship: 900 rows, a fifth of the ages missing, many ports and cabins.

    Sex and class say most, age and the size of the family something, and the fare follows the
    class, as in the well-known table of the Titanic; the rest is chance.
    """
    rng = np.random.default_rng(seed)
    num = 900
    ticket = rng.choice(3, num, p=[0.24, 0.21, 0.55])
    is_woman = rng.random(num) < 0.35
    age = np.clip(rng.gamma(6, 5, num) - 3 * ticket, 0.5, 80)
    family = rng.poisson(0.9, num)
    fare = np.exp(rng.normal([4.1, 2.9, 2.2], 0.5, (num, 3))[np.arange(num), ticket]) * (
        1 + 0.6 * family
    )
    port, deck = rng.choice(3, num, p=[0.72, 0.19, 0.09]), rng.integers(0, 8, num)
    score = 2.6 * is_woman - 0.9 * ticket - 0.03 * age - 0.35 * np.maximum(family - 2, 0)
    score += 1.6 * (age < 10) - 1.4 * (is_woman & (ticket == 2)) + 0.3 * (port == 1) + 0.9
    targets = (score + rng.logistic(size=num) > 0).astype(np.int64)
    numbers = np.stack([np.where(rng.random(num) < 0.2, np.nan, age), family, fare], axis=1)
    codes = np.stack([ticket, is_woman.astype(np.int64), port, deck], axis=1)
    return numbers, codes, targets


def _make_rare(seed: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Generate 6,000 rows of which one in a hundred is of the rare class, by a few rules."""
    rng = np.random.default_rng(seed)
    num = 6000
    numbers = rng.normal(size=(num, 8))
    codes = np.stack([rng.integers(0, 5, num), rng.integers(0, 40, num)], axis=1)
    numbers[:, 0] = np.exp(numbers[:, 0])
    score = 1.2 * np.log(numbers[:, 0]) + numbers[:, 1] * (codes[:, 0] == 2)
    score += 1.5 * (numbers[:, 2] > 1.5) + rng.normal(size=40)[codes[:, 1]]
    score += 0.6 * rng.logistic(size=num)
    targets = (score > np.quantile(score, 0.99)).astype(np.int64)
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    return numbers, codes, targets


def make_mixed(
    seed: int, *, is_regression: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Generate numbers with gaps and long tails, categories, and steps in the target."""
    rng = np.random.default_rng(seed)
    num, sizes = 2500, (3, 8, 30)
    numbers = rng.normal(size=(num, 4))
    numbers[:, 1] = np.exp(1.5 * numbers[:, 1])
    codes = np.stack([rng.integers(0, size, num) for size in sizes], axis=1)
    first, second, third = (
        rng.normal(size=size)[codes[:, place]] for place, size in enumerate(sizes)
    )
    score = numbers[:, 0] + np.log1p(numbers[:, 1]) * first + second + 0.7 * third
    score += 1.5 * (numbers[:, 2] > 0.3)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    if is_regression:
        return numbers, codes, score + 0.5 * rng.normal(size=num)
    noisy = score - score.mean() + 0.6 * rng.logistic(size=num)
    return numbers, codes, (noisy > 0).astype(np.int64)
