"""The report's section on how well training used its machine."""

from worker.results.efficiency import Efficiency, EfficiencyFacts

PARTS: dict[str, str] = {
    "start": "preparation: data, model, trials, rehearsal",
    "first steps": "first steps: choosing and tuning kernels",
    "steps": "steps: forward, backward, update",
    "data": "steps that waited for their batches",
    "checkpoints": "writing checkpoints",
    "evaluation": "scoring the validation split",
    "previews": "sample predictions",
    "profile": "profiled steps",
}
"""Parts of the time, in the order of the table."""


def render_efficiency(efficiency: Efficiency) -> str:
    """Render the section as Markdown."""
    facts = efficiency.facts
    lines = [
        f"- {efficiency.samples_per_second:,.0f} samples/s (evaluation excluded)",
        f"- Share of the bare step: {_share(efficiency.bare_share)}{_bare(facts)}",
        f"- Share of the device's peak: {_share(efficiency.peak_share)}{_peak(efficiency)}",
        *_memory(facts),
    ]
    parts = [f"## Efficiency\n\n{_sentence(efficiency.verdict)}\n\n" + "\n".join(lines)]
    parts.append(_budget(facts))
    if efficiency.changes:
        changes = "\n".join(f"- `{c.setting}`: {c.why}" for c in efficiency.changes)
        parts.append(f"What to change:\n\n{changes}")
    return "\n\n".join(parts)


def _bare(facts: EfficiencyFacts) -> str:
    if facts.bare_step_seconds is None:
        return f" ({facts.why_not_bare})" if facts.why_not_bare else ""
    return (
        f" ({1000 * facts.bare_step_seconds:.2f} ms: forward, backward and update on a resident "
        "batch)"
    )


def _peak(efficiency: Efficiency) -> str:
    facts = efficiency.facts
    found = "" if efficiency.tflops is None else _rate(efficiency.tflops)
    if facts.peak_tflops is not None:
        found += f" of {facts.peak_tflops:g} in {facts.precision}"
    details = ", ".join(part for part in (found, facts.why_no_peak or "") if part)
    return f" ({details})" if details else ""


def _rate(tflops: float) -> str:
    return f"{tflops:.3g} TFLOP/s" if tflops >= 0.1 else f"{1000 * tflops:.3g} GFLOP/s"


def _memory(facts: EfficiencyFacts) -> list[str]:
    if facts.host_peak_bytes is None or facts.data_bytes is None:
        return []
    peak, data = (number / 2**20 for number in (facts.host_peak_bytes, facts.data_bytes))
    text = f"- Peak host memory of the trainer: {peak:,.0f} MiB, including torch"
    size = f"{data:,.1f} MiB" if data >= 0.05 else "less than 0.1 MiB"
    return [f"{text}; the data set takes {size} as training reads it"]


def _budget(facts: EfficiencyFacts) -> str:
    total = sum(facts.seconds.values())
    rows = "\n".join(
        f"| {words} | {facts.seconds[name]:.1f} | {facts.seconds[name] / total:.1%} |"
        for name, words in PARTS.items()
        if name in facts.seconds
    )
    return f"| where the time went | seconds | share |\n|---|---:|---:|\n{rows}"


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
