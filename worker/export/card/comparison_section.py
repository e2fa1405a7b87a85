"""The report's section on models that cost little, trained and scored on the same samples."""

from collections.abc import Sequence

from redkiln.views.comparison import (
    HELD_OUT,
    BaselineScore,
    Comparison,
    CrossValidation,
    Threshold,
)
from worker.export.card.markdown import escape, escape_prose

BOTH_PERFECT = (
    "The model is as good as the best baseline: both are right on every test sample, so this test "
    "split cannot show which one is better."
)


PAIRED = (
    " A model is called better or worse only if a paired test on these samples is sure of it, at "
    "95 %."
)
AUC = "test/auc"


def render_comparison(
    comparison: Comparison, *, auc: float | None = None, warning: str | None = None
) -> str:
    """Render the section as Markdown.

    Args:
        comparison: The model next to its baselines.
        auc: The model's AUC on the test split, which does not depend on a threshold as the
            compared metric does; None if it has none.
        warning: The job's warning that a baseline is as good, or that there are too few samples
            to know; None without one.
    """
    said = comparison.describe()
    verdict = f"{said[:1].upper()}{escape(said[1:])}."
    if comparison.both_perfect:
        verdict = BOTH_PERFECT
        if comparison.doubt:
            verdict += f" {comparison.doubt}."
    elif warning is not None:
        verdict = f"**{warning[:1].upper()}{escape_prose(warning[1:])}.**"
    how = PAIRED if comparison.is_paired else ""
    return (
        "## Baselines\n\n"
        f"{verdict} The baselines were trained on the same training split and scored on the same "
        f"test split.{how}\n\n{_table(comparison, auc=auc)}"
    )


def _table(comparison: Comparison, *, auc: float | None = None, own: str = "this model") -> str:
    metric, (low, high) = comparison.metric, comparison.interval
    shown = [metric] if auc is None else [metric, AUC]
    values = [comparison.value] if auc is None else [comparison.value, auc]
    ends = f"95 % interval{'' if auc is None else f' of {metric}'} {low:.4f} to {high:.4f}"
    if low == high:
        ends = ""  # all resamples agree, so they know nothing of other samples
    rows = [
        f"| | {' | '.join(shown)} | |",
        f"|---|{'---|' * len(shown)}---|",
        f"| {own} | {' | '.join(f'{value:.4f}' for value in values)} | {ends} |",
        *(_row(baseline, shown) for baseline in comparison.baselines),
    ]
    return "\n".join(rows)


def render_threshold(threshold: Threshold, folds: CrossValidation | None = None) -> str:
    """Render the section about the decision between two classes as Markdown.

    Args:
        threshold: The chosen threshold.
        folds: Scores of the job's folds, which tell more than the test split.
    """
    name, chosen = escape(threshold.class_name), threshold.probability
    source = escape(threshold.describe_source())
    if chosen == 0.5:
        found = (
            f"`redkiln predict --threshold auto` changes nothing: no other probability has a "
            f"higher F1 on {source}"
        )
    else:
        found = (
            f"From a probability of {chosen:.4f}, the F1 on the test split is "
            f"{threshold.test_f1:.4f}. `redkiln predict --threshold auto` answers so; in your own "
            f"program, answer {name} if its probability is at least {chosen:.4f}. This threshold "
            f"has the highest F1 ({threshold.validation_f1:.4f}) on {source}"
        )
        if advice := threshold.advise(folds):
            found += f". {escape_prose(advice)}"
    return (
        f"## Decision threshold\n\nThe model answers {name} from a probability of 0.5. Its F1 of "
        f"{name} on the test split is then {threshold.test_f1_at_half:.4f}. {found}. The "
        f"probability is the softmax of the two outputs.{_render_decisions(threshold)}"
    )


def _render_decisions(threshold: Threshold) -> str:
    """Render what other thresholds find and cost on the test split, as a table."""
    if not threshold.decisions:
        return ""
    name = escape(threshold.class_name)
    rows = "\n".join(
        f"| {one.probability:.3g}{' (chosen)' if one.probability == threshold.probability else ''} "
        f"| {one.found} of {one.found + one.missed} | {one.false_alarms} |"
        for one in threshold.decisions
    )
    return (
        "\n\nChoose another one if a miss costs more, or less, than a false alarm. On the test "
        f"split:\n\n| {name} from | found | false alarms |\n|---|---|---|\n{rows}"
    )


def render_folds(found: CrossValidation, *, first: str = "") -> str:
    """Render the section about cross-validation as Markdown.

    Args:
        found: Scores of the folds.
        first: Metric of the first column, as in `test/accuracy`.
    """
    totals = found.summarise(first=first)
    rows = "\n".join(
        f"| {number} | {' | '.join(f'{fold[name]:.4f}' for name in totals)} |"
        for number, fold in enumerate(found.folds, start=1)
    )
    last = " | ".join(f"{mean:.4f} ± {std:.4f}" for mean, std in totals.values())
    return (
        "## Cross-validation\n\n"
        f"The training rows were split into {len(found.folds)} folds. For "
        "each fold, a model with the same settings was trained on the other folds and scored on "
        "this one. The exported model is another one.\n\n"
        f"| fold | {' | '.join(totals)} |\n|---|{'---|' * len(totals)}\n{rows}\n"
        f"| mean ± standard deviation | {last} |{_compare_folds(found.comparison)}"
    )


def _compare_folds(found: Comparison | None) -> str:
    if found is None:
        return ""
    said = escape(found.describe(HELD_OUT))
    more = "" if found.verdict == "equal" else f", on the {HELD_OUT}"
    how = PAIRED if found.is_paired else ""
    return (
        f"\n\n{said[:1].upper()}{said[1:]}{more}. For each fold, the baselines were trained on the "
        f"same rows as its model.{how}\n\n{_table(found, own='models of the folds')}"
    )


def _row(baseline: BaselineScore, metrics: Sequence[str]) -> str:
    values = [baseline.metrics.get(metric) for metric in metrics]
    cells = " | ".join("-" if value is None else f"{value:.4f}" for value in values)
    return f"| {escape(baseline.name)} | {cells} | {escape(baseline.note)} |"
