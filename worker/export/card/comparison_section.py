"""The report's section on models that cost little, trained and scored on the same samples."""

from redkiln.views.comparison import BaselineScore, Comparison
from worker.export.card.markdown import escape

VERDICTS = {
    "better": "The model is better than the best baseline, beyond its interval.",
    "equal": "The test split does not show that the model is better than the best baseline, whose "
    "value is within its interval.",
    "worse": "The best baseline is better than the model, beyond the model's interval.",
}


def render_comparison(comparison: Comparison) -> str:
    """Render the section as Markdown."""
    low, high = comparison.interval
    rows = "\n".join(_row(baseline, comparison.metric) for baseline in comparison.baselines)
    verdict = VERDICTS[comparison.verdict]
    if not comparison.beats_constant:
        constant = comparison.baselines[0].name
        verdict = f"**The model is not better than always answering the {constant}.**"
    return (
        "## Baselines\n\n"
        f"{verdict} The baselines were trained on the same training split and scored on the same "
        f"test split.\n\n| | {comparison.metric} | |\n|---|---|---|\n"
        f"| this model | {comparison.value:.4f} | 95 % interval {low:.4f} to {high:.4f} |\n{rows}"
    )


def _row(baseline: BaselineScore, metric: str) -> str:
    value = baseline.metrics.get(metric)
    shown = "-" if value is None else f"{value:.4f}"
    return f"| {escape(baseline.name)} | {shown} | {escape(baseline.note)} |"
