"""Generated tables of values: skewed ones, skewed ones that add up, and ones without a long tail.

Shapes: N rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.model_selection import train_test_split

from bench.accuracy.table_sets import Rows

NUM_TEST = 2000

Drawn = tuple[NDArray[np.float64], NDArray[np.int64] | None, NDArray[np.float64]]
"""Numbers (N, F), codes (N, K) or None, and targets (N,)."""
Draw = Callable[[np.random.Generator, int], Drawn]


@dataclass(frozen=True)
class ValueSet:
    """A table of values to learn.

    Attributes:
        kind: How the target comes about: `factors`, `sums`, `zeros` or `control`.
        num_train: Training rows.
        draw: Draws a number of rows.
    """

    name: str
    kind: str
    num_train: int
    draw: Draw

    def split(self, seed: int) -> Rows:
        """Return the table with test rows: 2,000 of a generated one, a quarter of a real one."""
        num = self.num_train + NUM_TEST
        numbers, codes, targets = self.draw(np.random.default_rng(seed), num)
        order = np.arange(len(targets))
        if len(targets) < num:
            order = np.concatenate(
                train_test_split(order, train_size=self.num_train, random_state=seed)
            )
        if codes is None:
            codes = np.zeros((len(targets), 0), np.int64)
        return Rows(numbers[order], codes[order], targets[order], self.num_train)


def _draw_cameras(rng: np.random.Generator, num: int) -> Drawn:
    """Prices of used cameras: each property is a factor."""
    brand, mount = rng.integers(0, 8, num), rng.integers(0, 4, num)
    pixels, age, shots = rng.uniform(8, 60, num), rng.uniform(0, 15, num), rng.gamma(2, 15, num)
    logs = rng.normal(0, 0.5, 8)[brand] + rng.normal(0, 0.3, 4)[mount]
    logs += 5 + 0.02 * pixels - 0.12 * age - 0.004 * shots + 0.5 * (pixels > 45)
    return (
        np.stack([pixels, age, shots], axis=1),
        np.stack([brand, mount], axis=1),
        np.exp(logs + rng.normal(0, 0.25, num)),
    )


def _draw_lenses(rng: np.random.Generator, num: int) -> Drawn:
    """Prices of used lenses from 20 to 9,000: more factors, more categories, and less noise."""
    sizes = (30, 6, 4, 5, 2)
    codes = np.stack([rng.integers(0, size, num) for size in sizes], axis=1)
    spreads = (0.8, 0.4, 0.4, 0.3, 0.2)
    logs = sum(
        rng.normal(0, spread, size)[code]
        for size, spread, code in zip(sizes, spreads, codes.T, strict=True)
    )
    focus, age, weight = rng.uniform(14, 400, num), rng.uniform(0, 25, num), rng.gamma(4, 150, num)
    logs = 5.8 + logs + 0.3 * np.log(focus / 100) - 0.05 * age + 0.3 * np.log(weight / 600)
    numbers = np.stack([focus, age, weight], axis=1)
    return numbers, codes, np.exp(logs + rng.normal(0, 0.12, num))


def _draw_houses(rng: np.random.Generator, num: int) -> Drawn:
    """Prices of houses: area times a price that depends on the place, plus the garden's."""
    town = rng.integers(0, 20, num)
    area, garden = rng.gamma(9, 14, num), rng.exponential(300, num)
    rooms, year = np.round(area / 28 + rng.normal(0, 0.7, num)), rng.uniform(1920, 2025, num)
    level = np.exp(rng.normal(0, 0.45, 20))[town]
    price = level * (2000 * area * (0.6 + (year - 1920) / 200) + 150 * garden)
    numbers = np.stack([area, garden, rooms, year], axis=1)
    return numbers, town[:, None], price * np.exp(rng.normal(0, 0.15, num))


def _draw_rents(rng: np.random.Generator, num: int) -> Drawn:
    """Rents: a price per square metre by district, and additions for furniture and a lift."""
    district, is_furnished, lift = (rng.integers(0, size, num) for size in (12, 2, 2))
    area, floor = rng.gamma(7, 10, num), rng.integers(0, 8, num).astype(float)
    rent = area * rng.uniform(8, 18, 12)[district] + 150 * is_furnished + 20 * lift * floor
    codes = np.stack([district, is_furnished, lift], axis=1)
    return np.stack([area, floor], axis=1), codes, rent * np.exp(rng.normal(0, 0.12, num)) + 80


def _draw_incomes(rng: np.random.Generator, num: int) -> Drawn:
    """Incomes: mostly noise, a third of their logarithm's variance is known."""
    job = rng.integers(0, 15, num)
    school, age = rng.integers(8, 21, num).astype(float), rng.uniform(18, 66, num)
    hours = np.clip(rng.normal(36, 9, num), 4, 70)
    logs = 8 + 0.06 * school + 0.05 * age - 0.0005 * age**2 + rng.normal(0, 0.25, 15)[job]
    logs += 0.5 * np.log(hours / 36)
    return (
        np.stack([school, age, hours], axis=1),
        job[:, None],
        np.exp(logs + rng.normal(0, 0.5, num)),
    )


def _draw_durations(rng: np.random.Generator, num: int) -> Drawn:
    """Times until a repair: exponentially distributed around a product."""
    part, numbers = rng.integers(0, 6, num), rng.normal(size=(num, 5))
    logs = 0.6 * numbers[:, 0] - 0.4 * numbers[:, 1] + rng.normal(0, 0.6, 6)[part]
    return numbers, part[:, None], 20 * np.exp(logs) * rng.weibull(1.5, num) + 0.01


def _draw_counts(rng: np.random.Generator, num: int) -> Drawn:
    """Counts of at least 1, of a Poisson distribution whose mean is a product."""
    numbers = rng.normal(size=(num, 5))
    logs = 2 + 0.6 * numbers[:, 0] + 0.4 * numbers[:, 1] * (numbers[:, 2] > 0)
    return numbers, None, 1.0 + rng.poisson(np.exp(logs))


def _draw_tails(rng: np.random.Generator, num: int) -> Drawn:
    """Sizes with a heavy tail: a product, with noise of Student's distribution."""
    numbers = rng.normal(size=(num, 6))
    logs = numbers[:, 0] + 0.5 * numbers[:, 1] ** 2 + 0.25 * rng.standard_t(5, num)
    return numbers, None, np.exp(logs)


def _draw_areas(rng: np.random.Generator, num: int) -> Drawn:
    """Squares of a sum, such as areas of fields."""
    numbers = rng.normal(size=(num, 6))
    side = 5 + numbers[:, :3].sum(axis=1) + 0.4 * rng.normal(size=num)
    return numbers, None, side**2 + 0.5


def _draw_bills(rng: np.random.Generator, num: int) -> Drawn:
    """Bills: a sum of skewed items with few unknown ones."""
    numbers = rng.lognormal(0, 0.9, (num, 5))
    return numbers, None, 5 + numbers @ [3.0, 2, 1, 1, 0] + 2 * rng.lognormal(0, 0.6, num)


def _draw_delays(rng: np.random.Generator, num: int) -> Drawn:
    """A sum of numbers with skewed noise, whose size does not depend on them."""
    numbers = rng.normal(size=(num, 6))
    return numbers, None, 12 + 2 * numbers[:, :3].sum(axis=1).clip(-5) + rng.gamma(1, 5, num)


def _draw_meters(rng: np.random.Generator, num: int) -> Drawn:
    """Consumption: the sum of two devices, each of which is a product."""
    numbers = rng.normal(size=(num, 6))
    parts = np.exp(0.8 * numbers[:, 0] + 0.5 * numbers[:, 1]) + np.exp(0.9 * numbers[:, 2])
    return numbers, None, 1 + parts + np.abs(rng.normal(0, 0.5, num))


def _draw_claims(rng: np.random.Generator, num: int) -> Drawn:
    """Claims: most are zero, the others a product."""
    numbers = rng.normal(size=(num, 5))
    sizes = np.exp(4 + 0.6 * numbers[:, 0] + 0.5 * rng.normal(size=num))
    return numbers, None, sizes * (rng.random(num) < 1 / (1 + np.exp(1 - numbers[:, 1])))


def _draw_scores(rng: np.random.Generator, num: int) -> Drawn:
    """A sum with symmetric noise, far above 0."""
    numbers = rng.normal(size=(num, 6))
    return numbers, None, 50 + 5 * numbers[:, 0] + 3 * numbers[:, 1] + 3 * rng.normal(size=num)


def _draw_shares(rng: np.random.Generator, num: int) -> Drawn:
    """A uniform target that reaches down to nearly 0."""
    numbers = rng.normal(size=(num, 6))
    score = numbers[:, 0] + numbers[:, 1] + 0.7 * rng.normal(size=num)
    return numbers, None, 100 / (1 + np.exp(-1.5 * score)) + 0.01


def _call(make: Callable[..., tuple[NDArray[np.float64], NDArray[np.float64]]]) -> Draw:
    def draw(rng: np.random.Generator, num: int) -> Drawn:
        numbers, targets = make(num, random_state=int(rng.integers(1 << 30)), noise=1.0)
        return numbers, None, targets

    return draw


def _load_diabetes(_rng: np.random.Generator, _num: int) -> Drawn:
    bunch = datasets.load_diabetes()
    return bunch.data, None, bunch.target.astype(np.float64)


SETS = [
    ValueSet("cameras", "factors", 400, _draw_cameras),
    ValueSet("lenses", "factors", 450, _draw_lenses),
    ValueSet("houses", "factors", 1000, _draw_houses),
    ValueSet("rents", "factors", 600, _draw_rents),
    ValueSet("incomes", "factors", 1500, _draw_incomes),
    ValueSet("durations", "factors", 800, _draw_durations),
    ValueSet("counts", "factors", 500, _draw_counts),
    ValueSet("heavy tails", "factors", 600, _draw_tails),
    ValueSet("areas", "factors", 400, _draw_areas),
    ValueSet("bills", "sums", 600, _draw_bills),
    ValueSet("delays", "sums", 600, _draw_delays),
    ValueSet("meters", "sums", 800, _draw_meters),
    ValueSet("claims", "zeros", 800, _draw_claims),
    ValueSet("scores", "control", 500, _draw_scores),
    ValueSet("shares", "control", 500, _draw_shares),
    ValueSet("friedman1", "control", 500, _call(datasets.make_friedman1)),
    ValueSet("friedman2", "control", 500, _call(datasets.make_friedman2)),
    ValueSet("diabetes", "control", 331, _load_diabetes),
]
