"""Default jobs on tables against other libraries: ranks, scores and training times.

Every model learns the same training rows and is scored on the same test rows: by AUC for classes,
by RMSE for values. Log loss and macro F1 of classes are printed in separate tables. A default
job is trained by its own loop and scored under ONNX Runtime, and so is one with
`model: gradient-boosting`. The others have their default settings. Times are CPU seconds, so that
other programs on the machine hardly change them; with OMP_NUM_THREADS=1 they are the times of one
idle core. The scores are printed as Markdown tables for `results/`.

`python -m bench.accuracy tables [--only NAME] [--model NAME] [--seed N]`
"""

import argparse
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.accuracy.competitors import Score, find_missing, list_competitors, score_competitor
from bench.accuracy.default_job import score_job
from bench.accuracy.table_sets import TableSet, list_table_sets
from bench.isolated import print_results, run_isolated
from bench.result import Result, at_most

OURS = "default job"
TREES = "gradient-boosting job"
MOST_RANK = 2
MOST_BEHIND = {False: 0.01, True: 0.03}
"""Largest allowed distance from the best model: of AUC, and as a share of RMSE."""
MOST_SECONDS = 10.0
"""CPU seconds of a job on 1,000 rows."""


@dataclass(frozen=True)
class Scores:
    """The scores of all models on one table.

    Attributes:
        means: Mean score over the splits by model, AUC or RMSE.
        seconds: Mean CPU seconds of training by model.
        log_losses: Mean log loss by model; empty for values.
        f1: Mean macro F1 by model; empty for values.
        f1_at_threshold: The same at the threshold chosen on validation, of jobs on two classes.
    """

    name: str
    is_regression: bool
    num_train: int
    means: Mapping[str, float]
    seconds: Mapping[str, float]
    log_losses: Mapping[str, float]
    f1: Mapping[str, float]
    f1_at_threshold: Mapping[str, float]

    @property
    def ranks(self) -> dict[str, int]:
        """Rank of each model, 1 for the best; equal scores share a rank."""
        sign = 1 if self.is_regression else -1
        rounded = {name: round(sign * mean, 4) for name, mean in self.means.items()}
        return {
            name: 1 + sum(other < value for other in rounded.values())
            for name, value in rounded.items()
        }

    @property
    def behind(self) -> float:
        """How far the default job is behind the best model: in AUC, or as a share of RMSE."""
        ours = self.means[OURS]
        others = [v for k, v in self.means.items() if k not in (OURS, TREES)]
        if self.is_regression:
            return ours / min(others) - 1
        return max(others) - ours


def run() -> list[Result]:
    """Measure in a separate process."""
    return run_isolated("bench.accuracy.tables")


def compare(sets: Iterable[TableSet], *, model: str | None = None) -> list[Scores]:
    """Train every model on every split of each table, and print the scores as they come."""
    for name in find_missing():
        print(f"{name} is not installed, so it is left out: pip install -e '.[bench]'")
    competitors = list_competitors()
    names = [OURS, TREES, *competitors]
    print(f"| table | rows | {' | '.join(names)} | behind | CPU s |")
    print(f"| -- | -- |{' -- |' * (len(names) + 2)}", flush=True)
    found = []
    for table in sets:
        found.append(_compare_on(table, model=model))
        print(describe(found[-1], names=names), flush=True)
    means = " | ".join(f"{mean_rank(found, name):.2f}" for name in names)
    print(f"| mean rank | | {means} | | |", flush=True)
    for title, read in SIDES.items():
        _print_side(found, names, title=title, read=read)
    return found


SIDES: dict[str, Callable[[Scores], Mapping[str, float]]] = {
    "log loss": lambda scores: scores.log_losses,
    "macro F1": lambda scores: scores.f1,
    "macro F1 at the chosen threshold": lambda scores: scores.f1_at_threshold,
}


def _print_side(
    found: Sequence[Scores],
    names: Sequence[str],
    *,
    title: str,
    read: Callable[[Scores], Mapping[str, float]],
) -> None:
    """Print another metric of the classifiers."""
    some = [(scores.name, read(scores)) for scores in found if read(scores)]
    if some:
        print(f"\n| {title} | {' | '.join(names)} |\n| -- |{' -- |' * len(names)}")
    for table, values in some:
        shown = (f"{values[name]:.4f}" if name in values else "-" for name in names)
        print(f"| {table} | {' | '.join(shown)} |", flush=True)


def _compare_on(table: TableSet, *, model: str | None) -> Scores:
    scores: dict[str, list[Score]] = {}
    for seed in range(table.num_splits):
        rows = table.split(seed)
        scores.setdefault(OURS, []).append(score_job(rows, model=model))
        scores.setdefault(TREES, []).append(score_job(rows, model="gradient-boosting"))
        for name, build in list_competitors().items():
            scores.setdefault(name, []).append(score_competitor(build, rows))
    return Scores(
        table.name,
        rows.is_regression,
        rows.num_train,
        means=_average(scores, lambda score: score.main),
        seconds=_average(scores, lambda score: score.seconds),
        log_losses=_average(scores, lambda score: score.log_loss),
        f1=_average(scores, lambda score: score.f1),
        f1_at_threshold=_average(scores, lambda score: score.f1_at_threshold),
    )


def _average(
    scores: Mapping[str, Sequence[Score]], read: Callable[[Score], float | None]
) -> dict[str, float]:
    """Return the mean of a figure by model, without models that lack it."""
    found = {name: [read(score) for score in some] for name, some in scores.items()}
    return {
        name: statistics.mean(value for value in values if value is not None)
        for name, values in found.items()
        if None not in values
    }


def describe(scores: Scores, *, names: Sequence[str]) -> str:
    """Return a row of the Markdown table."""
    shown = " | ".join(f"{scores.means[name]:.4g} ({scores.ranks[name]})" for name in names)
    behind = f"{scores.behind:+.1%}" if scores.is_regression else f"{scores.behind:+.4f}"
    metric = "RMSE" if scores.is_regression else "AUC"
    return (
        f"| {scores.name}, {metric} | {scores.num_train:,} | {shown} | {behind} | "
        f"{scores.seconds[OURS]:.1f} |"
    )


def mean_rank(found: Sequence[Scores], name: str) -> float:
    """Return a model's mean rank over all tables."""
    return statistics.mean(scores.ranks[name] for scores in found)


def summarise(found: Sequence[Scores]) -> list[Result]:
    """Return the figures with targets."""
    names = list(found[0].means)
    means = {name: mean_rank(found, name) for name in names}
    place = 1 + sum(mean < means[OURS] for mean in means.values())
    detail = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    slowest = max(found, key=_pace)
    results = [
        at_most("place of the default job by mean rank", place, "", MOST_RANK, detail),
        at_most("a job on 1,000 rows", _pace(slowest), "CPU s", MOST_SECONDS, slowest.name),
    ]
    for is_regression, unit in ((False, "AUC"), (True, "of RMSE")):
        some = [scores for scores in found if scores.is_regression == is_regression]
        if some:
            worst = max(some, key=lambda scores: scores.behind)
            limit = MOST_BEHIND[is_regression]
            figure = "default job behind the best model at most"
            results.append(at_most(figure, worst.behind, unit, limit, worst.name))
    return results


def _pace(scores: Scores) -> float:
    """Return the CPU seconds of a default job, for each 1,000 rows if there are more."""
    return scores.seconds[OURS] / max(1.0, scores.num_train / 1000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in this process and print the results as the last line."""
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy tables")
    parser.add_argument("--only", action="append", help="part of the name of a table; repeatable")
    parser.add_argument("--model", help="another model than the default")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generated tables")
    chosen = parser.parse_args(arguments)
    sets = list_table_sets(seed=chosen.seed)
    if chosen.only:
        sets = [table for table in sets if any(part in table.name for part in chosen.only)]
    print_results(summarise(compare(sets, model=chosen.model)))


if __name__ == "__main__":
    main()
