"""`report.md` of a benchmark: recommendations first, then every number."""

from collections.abc import Iterable

from redkiln.views.benchmark import (
    BenchmarkResult,
    Comparison,
    Measurement,
    amount_words,
    number_words,
)

TITLES = {
    "matmul": "Matrix products",
    "convolution": "Convolutions",
    "memory": "Memory",
    "training": "Training step",
    "copies": "Copies to the device",
    "allreduce": "All-reduce",
}


def render_card(result: BenchmarkResult, *, title: str) -> str:
    """Render the whole report as Markdown.

    Args:
        result: The benchmark's result.
        title: Name of its job.
    """
    sections = [_head(result, title), _advice(result)]
    for test, heading in TITLES.items():
        found = [m for m in result.measurements if m.test == test]
        if found:
            sections.append(f"## {heading}\n\n{_table(found)}")
    sections += [_comparison(comparison) for comparison in result.comparisons]
    sections.append(_machine(result))
    return "\n\n".join(sections) + "\n"


def _head(result: BenchmarkResult, title: str) -> str:
    machine = result.machine
    target = f" ({machine.gfx})" if machine.gfx else ""
    notes = "".join(f"\n\n{note}" for note in result.notes)
    return (
        f"# {title}\n\n{machine.device}{target}, measured {result.at:%Y-%m-%d %H:%M} UTC in "
        f"{result.seconds:.0f} s.{notes}\n\n![benchmark](benchmark.png)"
    )


def _advice(result: BenchmarkResult) -> str:
    lines = [f"- {_with_setting(item.text, item.setting)}" for item in result.recommendations]
    return "## Recommendations\n\n" + ("\n".join(lines) or "Nothing stands out.")


def _with_setting(text: str, setting: str | None) -> str:
    return f"{text} (`{setting}`)" if setting else text


def _table(measurements: Iterable[Measurement]) -> str:
    rows = "\n".join(_row(measured) for measured in measurements)
    return (
        "| test | median | spread | n | one call | of the peak |\n|---|---:|---:|---:|---:|---:|\n"
        f"{rows}"
    )


def _row(measured: Measurement) -> str:
    rate = measured.rate
    if rate is None or measured.seconds is None:
        return f"| {measured.title} | {measured.skipped or 'not measured'} | | | | |"
    share = "" if measured.share is None else f"{100 * measured.share:.0f} %"
    spread = f"{100 * rate.spread:.1f} %" if rate.num_samples > 1 else ""
    return (
        f"| {measured.title} | {amount_words(rate.value, measured.unit)} "
        f"| {spread} | {rate.num_samples} "
        f"| {number_words(1e3 * measured.seconds)} ms | {share} |"
    )


def _comparison(comparison: Comparison) -> str:
    text = f"## {comparison.title}\n\n"
    if comparison.skipped is not None:
        return text + f"Not compared: {comparison.skipped}."
    rows = "\n".join(
        f"| {pair.title} | {amount_words(pair.without, pair.unit)} "
        f"| {amount_words(pair.with_, pair.unit)} "
        f"| {pair.ratio:.2f}x | {100 * pair.spread:.1f} % | {pair.num_samples} |"
        for pair in comparison.pairs
    )
    gap = comparison.largest_difference or 0.0
    verdict = "within rounding" if comparison.agrees else "**more than rounding explains**"
    text += (
        "| test | without | with | ratio | spread | n |\n|---|---:|---:|---:|---:|---:|\n"
        f"{rows}\n\nOutputs differ by {gap:.1e} of the largest one, {verdict}."
    )
    if comparison.variables:
        listed = ", ".join(f"`{name}={value}`" for name, value in comparison.variables.items())
        text += f"\n\nVariables: {listed}."
    for patch in comparison.patches:
        text += f"\n- {patch.name}: {patch.outcome} ({patch.why})"
    return text


def _machine(result: BenchmarkResult) -> str:
    machine = result.machine
    lines = [
        f"- {machine.cpu}, {machine.num_cores} cores, {machine.num_threads} threads used",
        *(f"- {_gpu_words(gpu.name, gpu.gfx, gpu.pci_address)}" for gpu in machine.gpus),
        *(f"- {name} {value}" for name, value in machine.versions.items() if value),
    ]
    return (
        "## Machine\n\n" + "\n".join(lines) + "\n\nMedians of samples of at least 20 ms, warmed up "
        "and synchronised; compared settings were measured alternately. Spread is the "
        "interquartile range as a share of the median. `benchmark.json` contains everything; to "
        "compare two machines, run `redkiln bench --compare A.json B.json`."
    )


def _gpu_words(*facts: str | None) -> str:
    return ", ".join(fact for fact in facts if fact)
