"""Warns of classes with few samples, and of classes of very different sizes."""

import re
from collections import Counter
from collections.abc import Collection, Mapping

from redkiln.views.dataset import DatasetProblem
from service.datasets.inspect.near_classes import find_near_classes
from service.datasets.inspect.quality.misspellings import find_misspellings
from service.datasets.inspect.report import problem, show

FEW_SAMPLES = 5
MOST_IMBALANCE = 20
SHOWN = 5
MISSPELLING = 0.8
"""Similarity of two names from which on the rarer one may be a misspelling of the other."""
_DIGITS = re.compile(r"\d+")


def check_classes(
    counts: Mapping[str, Mapping[str, int]], *, are_labels: bool = False
) -> list[DatasetProblem]:
    """Return warnings about the sizes of classes.

    Args:
        counts: Samples by split and class, as `InspectionReport.counts` of a classification.
        are_labels: Whether a sample may have several of the classes.
    """
    totals: Counter[str] = Counter()
    for of_split in counts.values():
        totals.update(of_split)
    misspelt = find_misspellings(totals)
    train = counts.get("train", {})
    return [
        *_few(totals),
        *_misspelt(misspelt, totals),
        *_imbalance(train, misspelt, are_labels=are_labels),
    ]


def _few(totals: Counter[str]) -> list[DatasetProblem]:
    few = sorted((num, name) for name, num in totals.items() if num < FEW_SAMPLES)
    if not few:
        return []
    named = ", ".join(f"{show(name)}: {num}" for num, name in few[:SHOWN])
    more = ", ..." if len(few) > SHOWN else ""
    classes = "1 class has" if len(few) == 1 else f"{len(few)} classes have"
    spelling = "".join(f"; {text}" for text in _suspect_misspellings(totals)[:SHOWN])
    message = (
        f"{classes} fewer than {FEW_SAMPLES} samples ({named}{more}){spelling}; add samples, or "
        "merge or remove such classes: neither training nor the test can say anything about them"
    )
    return [problem("few_samples", message)]


def _suspect_misspellings(totals: Counter[str]) -> list[str]:
    """Return which small class may be a misspelling of a large one, other numbers excepted."""
    large = {name for name, num in totals.items() if num >= FEW_SAMPLES}
    near = find_near_classes(sorted(set(totals) - large), large, cutoff=MISSPELLING)
    return [
        _name_misspelling(name, other, totals)
        for name, other in near.items()
        if _DIGITS.sub("", name) != _DIGITS.sub("", other)
    ]


def _misspelt(misspelt: Mapping[str, str], totals: Counter[str]) -> list[DatasetProblem]:
    """Return a warning about misspelt classes that are not small enough for the other one."""
    found = [
        _name_misspelling(name, other, totals)
        for name, other in misspelt.items()
        if totals[name] >= FEW_SAMPLES
    ]
    if not found:
        return []
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    message = f"{'; '.join(found[:SHOWN])}{more}; if so, correct the name and push the data again"
    return [problem("misspelt_classes", message)]


def _name_misspelling(name: str, other: str, totals: Counter[str]) -> str:
    one, two = f"{show(name)} ({totals[name]:,})", f"{show(other)} ({totals[other]:,})"
    return f"{one} may be a misspelling of {two}"


def _imbalance(
    train: Mapping[str, int], misspelt: Collection[str], *, are_labels: bool
) -> list[DatasetProblem]:
    if len(train) < 2:
        return []
    # Smaller classes and misspelt ones have another warning.
    spelt = {name: num for name, num in train.items() if name not in misspelt}
    if len(spelt) < 2:
        return []
    counted = {name: num for name, num in spelt.items() if num >= FEW_SAMPLES}
    counted = counted if len(counted) > 1 else spelt
    large, small = max(counted, key=counted.__getitem__), min(counted, key=counted.__getitem__)
    if train[large] <= MOST_IMBALANCE * train[small]:
        return []
    ignored, metrics = "has a high accuracy", "macro F1 or AUC"
    if are_labels:
        ignored, metrics = "makes few mistakes", "average precision or F1 of each class"
    message = (
        f"class {show(large)} has {train[large]:,} training samples and {show(small)} has "
        f"{train[small]:,}: a model that ignores {show(small)} {ignored}; compare models "
        f"by {metrics}; {_advise(show(small), has_threshold=len(train) == 2 and not are_labels)}"
    )
    return [problem("imbalance", message)]


def _advise(rare: str, *, has_threshold: bool) -> str:
    """Return what helps, the best first.

    Source: bench/results/2026-11-28-rare-class.md, tables of two classes.
    """
    if not has_threshold:
        return f"training.class_weights balanced may find more of {rare}, at the cost of the others"
    return (
        f"to find more of {rare}, use the decision threshold in the report; "
        "training.class_weights balanced helps less on tables, and makes the probabilities wrong"
    )
