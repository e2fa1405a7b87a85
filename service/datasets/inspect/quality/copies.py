"""Warns of samples that occur several times: in a split, across splits, or in two classes.

Shapes: N samples.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, replace

import numpy as np

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.report import problem, show

MOST_PAIRS = 100
"""Pairs of copies that a warning lists."""
MOST_COLUMNS = 5
"""Columns that a warning names."""


@dataclass(frozen=True)
class Samples:
    """The samples of a data set.

    Attributes:
        noun: Plural name of the samples, such as `images`.
        is_test: (N,) bool, whether a sample is in the test split.
        is_validation: (N,) bool, whether a sample is in the set's own validation split; None if
            jobs take their validation samples from the training split.
        labels: (N,) class of each sample; None for a regression.
        name: Name of a sample for a message.
        name_label: Name of a sample's class for a message; None without classes.
        name_both: Names of two samples that show their difference; by default those of `name`.
        whole: Samples that these were picked from; None for all samples.
        num_held: (N,) by split, how many equal samples of a held-out split each stands for; empty
            if each stands for itself.
        is_drawn: Whether Redkiln drew the test split from the training samples.
    """

    noun: str
    is_test: np.ndarray
    labels: np.ndarray | None
    name: Callable[[int], str]
    is_validation: np.ndarray | None = None
    name_label: Callable[[int], str] | None = None
    name_both: Callable[[int, int], tuple[str, str]] | None = None
    whole: "Samples | None" = None
    num_held: Mapping[str, np.ndarray] = field(default_factory=dict)
    is_drawn: bool = False

    def name_pair(self, one: int, other: int) -> tuple[str, str]:
        """Return the names of two samples."""
        if self.name_both is not None:
            return self.name_both(one, other)
        return self.name(one), self.name(other)

    def pick_first(self, groups: np.ndarray) -> "Samples":
        """Return the first sample of each group, without its class, which stands for the others.

        Args:
            groups: (N,) int64; samples with the same number are equal.
        """
        _, rows, group = np.unique(groups, return_index=True, return_inverse=True)
        splits = {"test": self.is_test, "validation": self.is_validation}
        num_held = {
            split: np.bincount(group, weights=is_held, minlength=len(rows)).astype(np.int64)
            for split, is_held in splits.items()
            if is_held is not None
        }
        return replace(self.pick(rows, has_labels=False), num_held=num_held)

    def pick(self, rows: np.ndarray, *, has_labels: bool = True) -> "Samples":
        """Return some of the samples, with or without their classes."""
        own, labels, name_both = self.is_validation, self.labels, self.name_both
        name_label = self.name_label
        return Samples(
            noun=self.noun,
            is_test=self.is_test[rows],
            labels=None if labels is None or not has_labels else labels[rows],
            name=lambda place: self.name(int(rows[place])),
            is_validation=None if own is None else own[rows],
            name_label=None if name_label is None else lambda place: name_label(int(rows[place])),
            name_both=None
            if name_both is None
            else lambda one, other: name_both(int(rows[one]), int(rows[other])),
            whole=self,
            is_drawn=self.is_drawn,
        )

    def count(self, split: str) -> int:
        """Return the number of samples in the `test` or the own `validation` split."""
        is_held = self.is_test if split == "test" else self.is_validation
        return 0 if is_held is None else self.weigh(np.flatnonzero(is_held), split)

    def weigh(self, rows: np.ndarray, split: str) -> int:
        """Return the number of samples of a held-out split that some samples of it stand for."""
        return int(self.num_held[split][rows].sum()) if split in self.num_held else len(rows)

    @property
    def is_learnt(self) -> np.ndarray:
        """(N,) bool, whether a sample is in the training split and not in an own validation."""
        learnt: np.ndarray = ~self.is_test
        return learnt if self.is_validation is None else learnt & ~self.is_validation


def check_copies(
    samples: Samples,
    groups: np.ndarray,
    *,
    words: str = "equal to",
    code: str = "copies",
    features: np.ndarray | None = None,
) -> list[DatasetProblem]:
    """Return warnings about samples of the same group.

    Args:
        samples: The samples.
        groups: (N,) int64; samples with the same number are copies of each other.
        words: How a copy relates to the other sample, as in `equal to`.
        code: Beginning of the warnings' codes.
        features: (N,) int64; samples with the same number are equal for a model, so that it cannot
            give them two classes; by default the groups.
    """
    _, group = np.unique(groups, return_inverse=True)
    found = _across(
        samples, group, samples.is_test, words=words, code=f"{code}_across_splits", split="test"
    )
    if samples.is_validation is not None:
        found += _across(
            samples,
            group,
            samples.is_validation,
            words=words,
            code=f"{code}_in_validation",
            split="validation",
        )
    found += _in_test(samples, group, words=words, code=code)
    found += _in_training(samples, group, words=words, code=code)
    same = group if features is None else np.unique(features, return_inverse=True)[1]
    return [*found, *_in_two_classes(samples, same, words=words)]


def check_equal_features(
    samples: Samples,
    groups: np.ndarray,
    features: np.ndarray,
    *,
    unused: Mapping[str, np.ndarray],
    origins: Set[str] = frozenset(),
) -> list[DatasetProblem]:
    """Return warnings about held-out rows that equal a training row only for a model.

    Args:
        samples: The rows.
        groups: (N,) int64; rows with the same number are copies of each other.
        features: (N,) int64; rows with the same number are equal in the columns that are used.
        unused: (N,) number of the value of each row, by the name of each other column.
        origins: Those of these columns that numbers were derived from, which are used.
    """
    found = []
    for split, is_held in (("test", samples.is_test), ("validation", samples.is_validation)):
        if is_held is None:
            continue
        is_other = ~samples.is_test if split == "test" else samples.is_learnt
        is_alone = is_held & ~np.isin(groups, groups[is_other])
        rows, originals = _find_originals(features, is_alone, is_other)
        if not len(rows):
            continue
        pairs = _name_pairs(samples, rows, originals)
        differ = [name for name, codes in unused.items() if (codes[rows] != codes[originals]).any()]
        shown = ", ".join(
            f"{show(name)}{_DERIVED if name in origins else ''}" for name in differ[:MOST_COLUMNS]
        )
        more = f" and {len(differ) - MOST_COLUMNS} more" if len(differ) > MOST_COLUMNS else ""
        message = (
            f"{_count(samples, len(rows), split)} equal to {_name_others(samples, len(rows))} in "
            f"all columns that are used ({pairs[0][0]} and {pairs[0][1]}). They differ only in "
            f"columns that are not used: {shown}{more}. They are different rows of your file, "
            f"so keep them; but a model sees no difference{_point_to_pairs(len(rows))}"
        )
        code = f"equal_features_{'across_splits' if split == 'test' else 'in_validation'}"
        found.append(problem(code, message).model_copy(update={"pairs": pairs}))
    return found


def _across(
    samples: Samples, group: np.ndarray, is_held: np.ndarray, *, words: str, code: str, split: str
) -> list[DatasetProblem]:
    """Return a warning about the copies of training samples in a split."""
    is_other = ~samples.is_test if split == "test" else samples.is_learnt
    copied, originals = _find_originals(group, is_held, is_other)
    if not len(copied):
        return []
    pairs, num = _name_pairs(samples, copied, originals), samples.weigh(copied, split)
    message = (
        f"{_count(samples, num, split)} {words} {_name_others(samples, num)} "
        f"({pairs[0][0]} and {pairs[0][1]}). Therefore the {split} result may be better than the "
        f"result on new data{_CHOICE if split == 'validation' else ''}. "
        f"{_advise(samples, num, split)}{_point_to_pairs(len(copied))}"
    )
    found = {"pairs": pairs, "count": num}
    return [problem(code, message).model_copy(update=found)]


def _find_originals(
    group: np.ndarray, is_held: np.ndarray, is_other: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the held samples whose group has another sample, and the first of these for each."""
    copied = np.flatnonzero(is_held & np.isin(group, group[is_other]))
    known, firsts = np.unique(group[is_other], return_index=True)
    return copied, np.flatnonzero(is_other)[firsts[np.searchsorted(known, group[copied])]]


def _name_pairs(
    samples: Samples, copies: np.ndarray, originals: np.ndarray
) -> list[tuple[str, str]]:
    """Return the names of the first copies, each with that of its original."""
    return [
        samples.name_pair(int(copy), int(original))
        for copy, original in zip(copies[:MOST_PAIRS], originals, strict=False)
    ]


def _advise(samples: Samples, num: int, split: str) -> str:
    """Return what to do about copies; users cannot change a split that Redkiln drew."""
    if split == "test" and samples.is_drawn:
        return f"Keep only one copy of {'it' if num == 1 else 'each'} in your data"
    removed = "it" if num == 1 else "each of them"
    return f"Remove {removed} from the training or from the {split} split"


def _count(samples: Samples, num: int, split: str) -> str:
    """Return how many samples of a split are copies, with the verb; equal ones are left out."""
    of_split, verb = samples.count(split), "is" if num == 1 else "are"
    if samples.whole is not None and samples.whole.count(split) > of_split:
        return f"of the {of_split:,} other {split} {samples.noun}, {num:,} {verb}"
    return f"{num:,} of {of_split:,} {split} {samples.noun} {verb}"


def _name_others(samples: Samples, num: int) -> str:
    return f"a training {samples.noun[:-1]}" if num == 1 else f"training {samples.noun}"


def _point_to_pairs(num: int) -> str:
    """Return where all pairs are listed, if there are more than the one in the message."""
    if num == 1:
        return ""
    which = "all of them" if num <= MOST_PAIRS else f"the first {MOST_PAIRS}"
    return f". GET /v1/datasets/{{id}} lists {which} under `pairs`"


_DERIVED = " (only numbers derived from it are used)"
_CHOICE = ", and training may choose the wrong epoch as the best"
# Copies that are equal are in one of the two (`service.datasets.inspect.quality.draw`).
_SPLIT = (
    ": some copies may be in training and others in validation, so the validation result may be "
    "too good"
)


def _in_training(
    samples: Samples, group: np.ndarray, *, words: str, code: str
) -> list[DatasetProblem]:
    if samples.labels is not None:  # those of different classes are a mistake, not a repetition
        both = np.stack([group, samples.labels])
        group = np.unique(both, axis=1, return_inverse=True)[1].reshape(-1)
    copies, originals = _find_repeated(np.flatnonzero(samples.is_learnt), group)
    num = len(copies)
    if not num:
        return []
    pairs = _name_pairs(samples, copies, originals)
    noun, others, remove = f"{samples.noun} are", "others", "them, unless they"
    if num == 1:
        noun, others, remove = f"{samples.noun[:-1]} is", "another", "it, unless it"
    message = (
        f"{num:,} training {noun} {words} {others} ({pairs[0][0]} and {pairs[0][1]}). "
        f"Remove {remove} should count several times"
        f"{_SPLIT if samples.is_validation is None and code != 'copies' else ''}"
        f"{_point_to_pairs(num)}"
    )
    return [problem(f"{code}_in_training", message).model_copy(update={"pairs": pairs})]


def _in_test(samples: Samples, group: np.ndarray, *, words: str, code: str) -> list[DatasetProblem]:
    """Return a warning about test samples that are counted several times."""
    test = np.flatnonzero(samples.is_test)
    copies, originals = _find_repeated(test, group)
    num = len(copies)
    if not num:
        return []
    pairs = _name_pairs(samples, copies, originals)
    others, remove = ("another", "it") if num == 1 else ("others", "them")
    advice = f"Remove {remove} from it"
    if samples.is_drawn:
        advice = f"Keep only one copy of {'it' if num == 1 else 'each'} in your data"
    message = (
        f"{_count(samples, num, 'test')} {words} {others} of the test split "
        f"({pairs[0][0]} and {pairs[0][1]}). They say less than different ones, so the 95 % "
        f"intervals of the test result are narrower than they should be. {advice}"
        f"{_point_to_pairs(num)}"
    )
    found = {"pairs": pairs, "count": num}
    return [problem(f"{code}_in_test", message).model_copy(update=found)]


def _find_repeated(rows: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return those of some rows whose group an earlier one has, and the first one for each."""
    _, firsts, inverse = np.unique(group[rows], return_index=True, return_inverse=True)
    again = np.setdiff1d(np.arange(len(rows)), firsts)
    return rows[again], rows[firsts[inverse[again]]]


def _in_two_classes(samples: Samples, group: np.ndarray, *, words: str) -> list[DatasetProblem]:
    if samples.labels is None:
        return []
    order = np.lexsort((samples.labels, group))
    same = group[order][1:] == group[order][:-1]
    differ = np.flatnonzero(same & (samples.labels[order][1:] != samples.labels[order][:-1]))
    if not len(differ):
        return []
    pairs = [
        _name_contradiction(samples, int(order[place]), int(order[place + 1]))
        for place in differ[:MOST_PAIRS]
    ]
    if samples.noun == "images":
        message = _explain_labels(pairs[0], len(differ), words=words)
    else:
        num = int(np.isin(group, group[order][differ]).sum())
        remedy = "give all of them the same class"
        if samples.noun == "rows":  # with few columns, different things have equal rows
            remedy = "correct the wrong classes, or add columns that tell these rows apart"
        message = (
            f"{num:,} {samples.noun} are {words} {samples.noun} of another class "
            f"({pairs[0][0]} and {pairs[0][1]}); {remedy}"
        )
    message += _point_to_pairs(len(differ))
    return [problem("two_classes", message).model_copy(update={"pairs": pairs})]


def _explain_labels(example: tuple[str, str], num: int, *, words: str) -> str:
    """Return the message about pairs of images that have different labels."""
    how, advice = (
        "look alike",
        "Look at them: if they show the same thing, give them the same labels",
    )
    if words == "equal to":
        how, advice = "are equal", "Give equal images the same labels"
    if num == 1:
        found, such_as = f"2 images {how}", ":"
    else:
        found, such_as = f"{num:,} pairs of images {how}", ", for example"
    return f"{found} but have different labels{such_as} {example[0]} and {example[1]}. {advice}"


def _name_contradiction(samples: Samples, one: int, other: int) -> tuple[str, str]:
    """Return the names of two samples with their classes."""
    names = samples.name_pair(one, other)
    if samples.name_label is None:
        return names
    return f"{names[0]}: {samples.name_label(one)}", f"{names[1]}: {samples.name_label(other)}"
