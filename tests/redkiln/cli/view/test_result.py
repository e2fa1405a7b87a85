import io
from datetime import UTC, datetime

from rich.console import Console

from redkiln.cli.view.result import Result, print_result
from redkiln.views.job import JobView

METRICS = {"test/accuracy": 0.99, "test/loss": 0.05, "test/macro_f1": 0.71}


def show(metric, *, folds=None, copies=None):
    """Return the printed lines of a job that is judged by a metric."""
    job = JobView(
        id="job_1",
        name="swarms",
        task="tabular-classification",
        status="succeeded",
        is_terminal=True,
        spec={},
        result={
            "metrics": METRICS,
            "copies": copies,
            "cross_validation": {"folds": folds} if folds else None,
            "comparison": {
                "metric": metric,
                "value": METRICS[metric],
                "interval": (0.6, 0.8),
                "baselines": [{"name": "majority class", "metrics": {"test/accuracy": 0.989}}],
                "best": "majority class",
                "verdict": "better",
                "beats_constant": True,
            },
        },
        created_at=datetime(2026, 11, 28, tzinfo=UTC),
    )
    console = Console(file=io.StringIO(), width=300)
    print_result(console, Result(job))
    return [line.strip() for line in console.file.getvalue().splitlines()]


def test_the_metric_that_a_job_is_judged_by_comes_first():
    scores = {"accuracy": 0.99, "macro_f1": 0.7}
    lines = show("test/macro_f1", folds=[scores, scores])
    assert lines[1].split("  ")[0] == "test macro f1"
    assert "0.710, 95 % interval 0.600 to 0.800" in lines[1]
    assert lines[2].endswith("99.0 %; always answering the largest class gives 98.9 %")
    (fold,) = (line for line in lines if line.startswith("fold 1"))
    assert fold.endswith("macro_f1 0.7, accuracy 0.99")
    assert show("test/accuracy")[1].split("  ")[0] == "test accuracy"


def test_test_samples_that_are_copies_are_counted_in_one_line():
    (line,) = (
        line.removeprefix("test split").strip()
        for line in show(
            "test/accuracy",
            copies={"noun": "texts", "num_test": 60, "num_copies": 7, "num_repeated": 12},
        )
        if line.startswith("test split")
    )
    assert line == (
        "at least 7 of 60 test texts are copies or near copies of training texts, so the result "
        "may be too good; 12 of 60 test texts are copies or near copies of other test texts, so "
        "the 95 % intervals are narrower than they should be"
    )
    assert not any(line.startswith("test split") for line in show("test/accuracy"))
