"""The pages of `bench --suite ai`: one result with its scores, or two side by side."""

from rich.console import Console
from rich.table import Table

from redkiln.views.suite import SuiteResult, SuiteTest, compare_scores

NOTHING = "-"


def print_suite(console: Console, result: SuiteResult) -> None:
    """Print a result: a line for each workload, then the scores."""
    console.print(
        f"{result.machine.device}, {result.precision}, {result.sizes} sizes", style="bold"
    )
    has_power = any(test.joules for test in result.tests)
    providers = list(dict.fromkeys(name for test in result.tests for name in test.providers))
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("workload")
    for name in ("batch", "size", "samples/s", "spread", "TFLOP/s", *(["per joule"] * has_power),
                 *map(shorten_provider, providers)):  # fmt: skip
        table.add_column(name, justify="right")
    for test in result.tests:
        energy = [_number(test.samples_per_joule)] if has_power else []
        others = [_number(test.providers.get(name)) for name in providers]
        table.add_row(
            test.id, str(test.batch_size), str(test.size), *_rates(test), *energy, *others
        )
    console.print(table)
    for test in result.tests:
        if test.skipped:
            console.print(f"{test.id}: {test.skipped}", style="dim", markup=False)
        for name, why in test.provider_errors.items():
            console.print(f"{test.id}, {name}: {why}", style="dim", markup=False)
    shown = [f"{name} {_number(score)}" for name, score in result.scores.items()]
    console.print(f"score: {', '.join(shown)}", style="bold")
    if result.sizes == "quick":
        console.print("Quick sizes check that everything runs; their score means nothing.")


def print_suites(console: Console, first: SuiteResult, second: SuiteResult) -> None:
    """Print two results side by side, with the ratio of the second to the first."""
    if (first.sizes, first.precision) != (second.sizes, second.precision):
        console.print("These results have different sizes or precisions; compare with care.")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("samples/s")
    for name in (first.machine.device, second.machine.device, "ratio"):
        table.add_column(name, justify="right", overflow="fold")
    others = {test.id: test for test in second.tests}
    for test in first.tests:
        other = others.get(test.id)
        pair = (_value(test), _value(other) if other else None)
        table.add_row(test.id, *map(_number, pair), _ratio(*pair))
    scores = compare_scores(first, second)
    for name, score in scores[0].items():
        pair = (score, scores[1][name])
        table.add_row(f"{name} score", *map(_number, pair), _ratio(*pair), style="bold")
    console.print(table)
    for result in (first, second):
        if result.source:
            console.print(f"{result.machine.device}: {result.source}", style="dim", markup=False)


def shorten_provider(name: str) -> str:
    """Return the name of an execution provider for a column."""
    return f"ORT {name.removesuffix('ExecutionProvider')}"


def _rates(test: SuiteTest) -> tuple[str, str, str]:
    spread = NOTHING if test.rate is None else f"{test.rate.spread:.0%}"
    return _number(_value(test)), spread, _number(test.tflops)


def _value(test: SuiteTest) -> float | None:
    return None if test.rate is None else test.rate.value


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(left: float | None, right: float | None) -> str:
    return NOTHING if not left or right is None else f"{right / left:.2f}x"
