"""Scores baselines on the test split and judges whether the model is better."""

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from redkiln.views.comparison import BaselineScore, Comparison, Interval, Judgement
from worker.export.baselines.baseline import Baseline, Skipped
from worker.export.baselines.learners import import_libraries
from worker.export.target import ExportTarget, Outputs, Scored, Scoring

SHARE_OF_TRAINING = 0.1
LEAST_SECONDS = 2.0
MOST_SECONDS = 30.0
"""Limits of the time that baselines may add to a job."""
WHOLE = ("accuracy", "macro_f1")
"""Metrics that are 1 if and only if every answer is right."""
EQUAL = 0.001
"""Part of its interval by which a metric of the ONNX file may differ and still be the same."""
MOST_REASON = 200
"""Characters of an error that a baseline's note shows."""
MOST_MASKS = 1000
"""Masks of the training split that decide about the constant answer; all may not fit in memory."""


def find_budget(training_seconds: float) -> float:
    """Return how long all baselines may train, from how long the model did."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, SHARE_OF_TRAINING * training_seconds))


class Rival(NamedTuple):
    """A baseline that was tried.

    Attributes:
        score: Its scores on the test split.
        outputs: (N, ...) its outputs there; None if it was not trained.
    """

    score: BaselineScore
    outputs: Outputs | None = None


class Pair(NamedTuple):
    """The model next to one baseline, on the same test samples.

    Attributes:
        judgement: The verdict of a paired test; None if there is no such test.
        num_different: Samples that both answer differently; None if answers are not classes.
    """

    judgement: Judgement | None = None
    num_different: int | None = None


@dataclass(frozen=True)
class Standing:
    """How good a model is, with the uncertainty of its test split.

    Attributes:
        intervals: 95 % confidence intervals by metric, named `test/...`.
        comparison: The model next to its baselines.
        is_error: Whether lower values of the compared metric are better.
    """

    intervals: dict[str, Interval]
    comparison: Comparison
    is_error: bool = False


def find_standing(
    target: ExportTarget,
    *,
    outputs: Outputs,
    of_file: Outputs,
    metrics: Mapping[str, float],
    training_seconds: float,
) -> Standing:
    """Compare a model with the constant answer and the task's baselines on the test split.

    Args:
        target: The task's data and baselines.
        outputs: (N, ...) the model's outputs for the test split.
        of_file: (N, ...) the same under ONNX Runtime.
        metrics: Its metrics by name, without `test/`.
        training_seconds: How long it trained, which limits the time of the baselines.
    """
    scoring, targets = target.scoring, target.targets[target.rows["test"]]
    intervals = scoring.find_intervals(outputs, targets)
    intervals |= _find_file_interval(scoring, (of_file, targets), metrics, known=intervals)
    metric = scoring.choose_compared(_read_train(target))
    value = metrics[metric]
    rivals = score_baselines(target, seconds=find_budget(training_seconds))
    answers = {rival.score.name: rival.outputs for rival in rivals}

    def judge(name: str) -> Pair:
        return _compare_pair(scoring, metric, outputs, answers[name], targets)

    comparison = compare(
        [rival.score for rival in rivals],
        metric=f"test/{metric}",
        value=value,
        interval=intervals.get(metric, (value, value)),
        is_error=scoring.is_error,
        judge=judge,
        num_test=len(targets),
    )
    by_split = {f"test/{name}": ends for name, ends in intervals.items()}
    return Standing(by_split, comparison, is_error=scoring.is_error)


def compare_folds(
    scoring: Scoring, *, held_out: Scored, folds: Sequence[Sequence[Rival]], metric: str
) -> Comparison:
    """Compare a model with its baselines on the held-out rows of all folds together.

    Args:
        scoring: Scores the outputs; its metrics get no prefix.
        held_out: Outputs and targets of all folds, each by the model trained without the fold.
        folds: The baselines of each fold, trained and scored on the same rows as its model.
        metric: The compared metric.
    """
    outputs, targets = held_out
    rivals = [_join(scoring, parts, targets) for parts in zip(*folds, strict=True)]
    answers = {rival.score.name: rival.outputs for rival in rivals}
    value = scoring.score(outputs, targets)[metric]
    return compare(
        [rival.score for rival in rivals],
        metric=metric,
        value=value,
        interval=scoring.find_intervals(outputs, targets).get(metric, (value, value)),
        is_error=scoring.is_error,
        judge=lambda name: _compare_pair(scoring, metric, outputs, answers[name], targets),
        num_test=len(targets),
    )


def _join(scoring: Scoring, parts: Sequence[Rival], targets: NDArray[Any]) -> Rival:
    """Join a baseline's answers for all folds; without one of them it has no score."""
    name = parts[0].score.name
    note = "; ".join(dict.fromkeys(part.score.note for part in parts if part.score.note))
    known = [part.outputs for part in parts if part.outputs is not None]
    if len(known) < len(parts):
        return Rival(BaselineScore(name=name, note=note))
    return _score(scoring, name, (np.concatenate(known), targets), note=note, prefix="")


def _compare_pair(
    scoring: Scoring, metric: str, ours: Outputs, theirs: Outputs | None, targets: NDArray[Any]
) -> Pair:
    if theirs is None:
        return Pair()
    judgement = scoring.compare_pair(metric, ours, theirs, targets)
    agreement = None if judgement is None else scoring.find_agreement(ours, theirs)
    return Pair(judgement, None if agreement is None else round((1 - agreement) * len(targets)))


def _find_file_interval(
    scoring: Scoring, test: Scored, metrics: Mapping[str, float], *, known: Mapping[str, Interval]
) -> dict[str, Interval]:
    """Return the interval of the headline of the ONNX file, if the trained model's has one.

    Bootstraps take seconds, so the trained model's is taken if the two headlines are equal.
    """
    name, name_of_file = scoring.headline, f"{scoring.headline}_onnx"
    if name not in known:
        return {}
    low, high = known[name]
    if abs(metrics[name_of_file] - metrics[name]) <= EQUAL * (high - low):
        return {name_of_file: (low, high)}
    own = scoring.find_intervals(*test).get(name)
    return {} if own is None else {name_of_file: own}


def _read_train(target: ExportTarget) -> NDArray[Any]:
    """Return the targets of the training split; of masks, which are large, only some."""
    rows = target.rows["train"]
    if target.targets.ndim == 3:
        rows = rows[:: -(-len(rows) // MOST_MASKS)]
    found: NDArray[Any] = target.targets[rows]
    return found


def score_baselines(target: ExportTarget, *, seconds: float) -> list[Rival]:
    """Train and score the constant answer and the task's baselines in about this time.

    Each baseline trains at least its first rounds.
    """
    test = target.rows["test"]
    name, outputs = target.scoring.answer_constantly(_read_train(target), len(test))
    scores = [_score(target.scoring, name, (outputs, target.targets[test]))]
    if target.baselines:
        import_libraries()  # before the clock starts
    end = time.perf_counter() + seconds
    for place, baseline in enumerate(target.baselines):
        rest = max(0.0, end - time.perf_counter()) / (len(target.baselines) - place)
        scores.append(_train(target, baseline, seconds=rest))
    return scores


def compare(
    baselines: Sequence[BaselineScore],
    *,
    metric: str,
    value: float,
    interval: Interval,
    is_error: bool,
    judge: Callable[[str], Pair] = lambda _name: Pair(),
    num_test: int | None = None,
) -> Comparison:
    """Judge a model by a paired test with its best baseline; without one, by its interval.

    Args:
        baselines: Scores of the baselines; the first is the constant answer.
        metric: Name of the compared metric, as in `test/accuracy`, or `accuracy` for folds.
        value: The model's value.
        interval: Its 95 % confidence interval.
        is_error: Whether lower values are better.
        judge: Compares the model with the baseline of this name.
        num_test: Number of test samples.
    """
    sign = -1 if is_error else 1
    known = {b.name: sign * b.metrics[metric] for b in baselines if metric in b.metrics}
    best, constant = max(known, key=lambda name: known[name]), baselines[0].name
    own = tuple(sorted(sign * end for end in interval))
    pairs = {name: judge(name) for name in dict.fromkeys([best, constant])}
    verdicts = {
        name: pair.judgement or _judge_interval(own, known[name]) for name, pair in pairs.items()
    }
    return Comparison(
        metric=metric,
        value=value,
        interval=interval,
        baselines=list(baselines),
        best=best,
        verdict=verdicts[best],
        beats_constant=verdicts[constant] == "better",
        both_perfect=metric.removeprefix("test/") in WHOLE
        and value == known[best] == 1
        and best != constant,
        num_different=pairs[best].num_different,
        num_test=num_test,
        is_paired=pairs[best].judgement is not None,
    )


def _judge_interval(own: tuple[float, ...], other: float) -> Judgement:
    """Judge a model by its interval, where higher values are better."""
    if own[0] > other:
        return "better"
    return "worse" if own[-1] < other else "equal"


def _train(target: ExportTarget, baseline: Baseline, *, seconds: float) -> Rival:
    try:
        fitted = baseline.fit(target.rows["train"], target.rows["test"], seconds)
        if not np.isfinite(fitted.outputs).all():
            raise ValueError("its answers are not finite")
        scored = (fitted.outputs, target.targets[target.rows["test"]])
        return _score(target.scoring, baseline.name, scored, note=fitted.note)
    except Skipped as reason:
        return Rival(BaselineScore(name=baseline.name, note=f"not trained: {reason}"))
    except Exception as error:  # noqa: BLE001  # a baseline must not cost a trained model
        traceback.print_exc()
        words = " ".join(f"{type(error).__name__}: {error}".split())[:MOST_REASON]
        note = f"failed, see trainer.log: {words}"
        return Rival(BaselineScore(name=baseline.name, note=note))


def _score(
    scoring: Scoring, name: str, scored: Scored, *, note: str = "", prefix: str = "test/"
) -> Rival:
    outputs, targets = scored
    numbers = outputs if outputs.dtype == object else outputs.astype(np.float32)
    found = scoring.score(numbers, targets)
    metrics = {f"{prefix}{metric}": value for metric, value in found.items()}
    return Rival(BaselineScore(name=name, metrics=metrics, note=note), numbers)
