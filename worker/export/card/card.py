"""`report.md`: the model card, for readers who were not involved in the training."""

import re
from typing import Any

from pydantic import BaseModel

from redkiln.views.comparison import Comparison, CrossValidation, Interval, Threshold
from redkiln.views.dataset import UNUSED_COLUMNS
from redkiln.views.hardware import PatchOutcome
from redkiln.views.result import CopiesInTest
from worker.export.card.comparison_section import (
    AUC,
    render_comparison,
    render_folds,
    render_threshold,
)
from worker.export.card.efficiency_section import render_efficiency
from worker.export.card.markdown import as_sentence, escape, escape_prose
from worker.export.card.unseen import say_unseen
from worker.export.target import CardTexts
from worker.results.efficiency import Efficiency
from worker.results.evidence import describe_work
from worker.results.findings import FirstSteps, describe_finding

ACCURACY, MACRO_F1 = "test/accuracy", "test/macro_f1"
FEW_VALIDATION = 50
"""Samples of the validation split below which chance decides much of which epoch is the best."""
SHOWN_SECONDS = 0.05
"""Phases shorter than this are not shown."""
HELD_OUT = "held out"
"""Words of a note of the data set that says where its test split comes from."""
_FIRST = re.compile(r"Test (accuracy|macro F1|mean average precision) \*\*[^*]+\*\*(?=,|$)")
_OPTIONS = re.compile(r"; to (?:change|use) it: .*", re.DOTALL)
"""The end of a note of the data set, which names options for the next upload."""


class CardFacts(BaseModel):
    """The contents of the card.

    Attributes:
        noun: Plural name of the samples.
        dataset_notes: How the data set was read.
        dataset_warnings: Doubts about its quality.
        dataset_leaks: Those about columns that predict the target by themselves.
        copies: Test samples that are copies of training samples or of each other.
        finished_early: Whether the user asked for the best model before all planned steps.
        texts: Texts that only the task can provide.
        headline: The test split's main metric, Markdown.
        results: Text after the table of metrics, Markdown.
        mistakes: Section about the worst mistakes, Markdown; empty without any.
        output: The classes or the target, Markdown.
        intervals: 95 % confidence intervals of some of the metrics.
        comparison: The model next to its baselines.
        warning: The job's warning about this comparison.
        threshold: Decision threshold of two classes.
        cross_validation: Scores of the folds.
        parity: `worker.export.parity.Difference` as JSON.
        variants: Section about files in lower precision, Markdown; empty without any.
        drop: Label and value of how much worse the metric is under ONNX Runtime.
        estimated_seconds: How long training was expected to take before its first step.
        agreement: Name of the share of samples with equal answers.
        least_agreement: Smallest share that is allowed; 0 if it is not judged.
        slimming: Sentence about the clean-up of the file, with a space behind it.
        providers: List of other execution providers and how the file runs on them, Markdown.
        framework: The library whose outputs ONNX Runtime's are compared with.
    """

    job_name: str
    job_id: str
    dataset: str
    dataset_notes: list[str]
    dataset_warnings: list[str] = []
    dataset_leaks: list[str] = []
    copies: CopiesInTest | None = None
    finished_early: bool = False
    fingerprint: str
    noun: str
    texts: CardTexts
    headline: str
    results: str
    mistakes: str = ""
    output: str
    counts: dict[str, int]
    held_out_test: bool
    spec: dict[str, Any]
    num_parameters: int
    best_epoch: int
    best_step: int
    steps: int
    planned_steps: int
    steps_per_epoch: int
    epochs: int
    metrics: dict[str, float]
    intervals: dict[str, Interval]
    comparison: Comparison
    warning: str | None = None
    threshold: Threshold | None = None
    cross_validation: CrossValidation | None = None
    parity: dict[str, Any]
    gate: dict[str, float]
    drop: tuple[str, float]
    agreement: str = "same class"
    least_agreement: float = 0.0
    framework: str = "torch"
    verified: bool
    misses: list[str]
    model_file: dict[str, Any]
    slimming: str | None = None
    providers: str = ""
    environment: dict[str, Any]
    first_steps: FirstSteps | None = None
    advice: list[str] = []
    efficiency: Efficiency | None = None
    variants: str = ""
    seconds: dict[str, float]
    estimated_seconds: float | None = None


def render_card(facts: CardFacts) -> str:
    """Render the card as Markdown."""
    sections = [
        _summary(facts),
        _results(facts),
        *([facts.mistakes] if facts.mistakes else []),
        render_comparison(facts.comparison, auc=facts.metrics.get(AUC), warning=facts.warning),
        *([render_threshold(facts.threshold, facts.cross_validation)] if facts.threshold else []),
        *(
            [render_folds(facts.cross_validation, first=facts.comparison.metric)]
            if facts.cross_validation
            else []
        ),
        _usage(facts),
        _data(facts),
        _training(facts),
        *([render_efficiency(facts.efficiency)] if facts.efficiency else []),
        _verification(facts),
        *([facts.variants] if facts.variants else []),
        _environment(facts),
    ]
    return "\n\n".join(sections) + "\n"


def _summary(facts: CardFacts) -> str:
    model = facts.spec["model"]["name"]
    if facts.verified:
        state = f"**Verified**: ONNX Runtime matches {facts.framework} within the job's tolerance."
    else:
        state = "**Unverified**: " + "; ".join(facts.misses) + "."
    return (
        f"# {facts.job_name}\n\n"
        f"{model} ({facts.num_parameters:,} {facts.texts.unit}) that {facts.texts.does}, trained "
        f"on `{facts.dataset}`.\n\n"
        f"{_say_headline(facts)} on {facts.counts['test']:,} {facts.noun}"
        f"{say_unseen(facts.copies)}\n\n{_say_share(facts)}{_name_leaks(facts)}{_say_early(facts)}{state}"
        f"{_count_warnings(facts)}"
    )


def _say_headline(facts: CardFacts) -> str:
    """Return the headline; a classifier's first value, the compared metric, has its interval."""
    metric = facts.comparison.metric
    found, first = facts.intervals.get(metric), _FIRST.match(facts.headline)
    if found is None or first is None:
        return facts.headline
    low, high = (f"{end:.3f}" if metric == MACRO_F1 else f"{end:.1%}" for end in found)
    return f"{first[0]} (95 % interval {low} to {high}){facts.headline[first.end() :]}"


def _say_share(facts: CardFacts) -> str:
    """Return how large the largest class is, if the headline is macro F1 because of it."""
    share = facts.comparison.baselines[0].metrics.get(ACCURACY)
    if facts.comparison.metric != MACRO_F1 or share is None or ACCURACY not in facts.metrics:
        return ""
    return (
        f"Always answering the largest class is right for {share:.1%} of them, so the accuracy of "
        f"{facts.metrics[ACCURACY]:.1%} says little. Macro F1 is the mean of each class's F1.\n\n"
    )


def _name_leaks(facts: CardFacts) -> str:
    """Return what makes the score too good to be true, if its validation found such a column."""
    return "".join(
        f"**New data may score far worse**: {escape_prose(leak)}.\n\n"
        for leak in facts.dataset_leaks
    )


def _say_early(facts: CardFacts) -> str:
    """Return how much of the planned training was done, if the user did not wait for all of it."""
    if not facts.finished_early:
        return ""
    per, what = facts.steps_per_epoch, "epochs"
    if facts.texts.course is not None:
        per, what = 1, "iterations"
    return (
        f"**Finished early** with `redkiln finish`, after {facts.steps / per:.4g} of "
        f"{facts.planned_steps / per:.4g} {what}. More training may give a better model.\n\n"
    )


def _count_warnings(facts: CardFacts) -> str:
    unused = [one for one in facts.dataset_warnings if one.startswith(UNUSED_COLUMNS)]
    top = "".join(f"\n\n{as_sentence(one)}" for one in unused)
    num = len(facts.dataset_warnings)
    if not num:
        return ""
    count = "1 warning" if num == 1 else f"{num} warnings"
    return f"{top}\n\n**The data set has {count}**, which may limit what the results say: see Data."


def _results(facts: CardFacts) -> str:
    metrics = "\n".join(
        f"| {name} | {value:.4f} | {_interval(facts.intervals.get(name))} |"
        for name, value in sorted(facts.metrics.items())
    )
    round_ = "epoch" if facts.texts.course is None else "iteration"
    chosen = f"the last {round_}"
    if _has_validation(facts):
        num = facts.counts["validation"]
        chosen = f"the best {round_} was chosen on {num:,} validation {facts.noun}"
        if num < FEW_VALIDATION:
            chosen += f" (so few that with another seed another {round_} may be the best)"
    return (
        f"## Results\n\nThe test split was scored once, after {chosen}.\n\n"
        f"| metric | value | 95 % interval |\n|---|---|---|\n{metrics}\n\n{facts.results}"
    )


def _interval(ends: Interval | None) -> str:
    return "" if ends is None else f"{ends[0]:.4f} to {ends[1]:.4f}"


def _has_validation(facts: CardFacts) -> bool:
    return facts.counts.get("validation", 0) > 0


def _usage(facts: CardFacts) -> str:
    return f"## Use\n\n{facts.texts.usage}"


def _data(facts: CardFacts) -> str:
    counts = ", ".join(f"{num:,} {split}" for split, num in facts.counts.items())
    lines = [
        f"- Data set `{facts.dataset}`, fingerprint `{facts.fingerprint}`",
        f"- {facts.noun.capitalize()}: {counts}",
        f"- {facts.output}",
    ]
    if facts.held_out_test and not any(HELD_OUT in note for note in facts.dataset_notes):
        lines.append(
            f"- The data set has no test split, so a tenth of its {facts.noun} was held out for "
            "testing."
        )
    lines += [f"- {_say_note(note)}" for note in facts.dataset_notes]
    lines.append(f"- Preprocessing: {facts.texts.preprocessing}")
    return "## Data\n\n" + "\n".join(lines) + _warnings(facts)


def _say_note(note: str) -> str:
    """Return how the data set was read, with a capital unless it begins with a file's name."""
    said = escape(_OPTIONS.sub("", note))
    return said if "." in said.partition(" ")[0] else said[:1].upper() + said[1:]


def _warnings(facts: CardFacts) -> str:
    """Return what the validation of the data set doubted, which limits what the results say."""
    if not facts.dataset_warnings:
        return ""
    lines = [f"- {as_sentence(warning)}" for warning in facts.dataset_warnings]
    return "\n\nWarnings about the data:\n\n" + "\n".join(lines)


def _training(facts: CardFacts) -> str:
    lines = [
        *(_course(facts) if facts.texts.course is None else facts.texts.course),
        *facts.texts.training,
        f"{'Best' if _has_validation(facts) else 'Last'} {_place(facts)}",
        f"Time: {_times(facts)}{_estimate(facts)}",
        *(f"To train faster: {escape(text)}" for text in facts.advice),
    ]
    return "## Training\n\n" + "\n".join(f"- {line}" for line in lines)


def _place(facts: CardFacts) -> str:
    if facts.texts.course is not None:
        return f"iteration {facts.best_step:,} of {facts.steps:,}"
    return f"epoch {facts.best_epoch} (step {facts.best_step:,})"


def _times(facts: CardFacts) -> str:
    return ", ".join(
        f"{phase} {s:.1f} s" for phase, s in facts.seconds.items() if s >= SHOWN_SECONDS
    )


def _estimate(facts: CardFacts) -> str:
    if facts.estimated_seconds is None:
        return ""
    return (
        f". Before the first step, {facts.estimated_seconds:.1f} s were estimated for training, "
        "without evaluations and early stopping"
    )


def _course(facts: CardFacts) -> list[str]:
    """Return the settings of an optimiser and its batches."""
    training = facts.spec["training"]
    optimizer = training["optimizer"]
    settings = ", ".join(f"{k} {v}" for k, v in optimizer.items() if k != "name")
    smoothing = training.get("label_smoothing")
    smoothed = "" if smoothing is None else f"label smoothing {smoothing}, "
    return [
        (
            f"{facts.epochs} {'epoch' if facts.epochs == 1 else 'epochs'}, {facts.steps:,} steps "
            f"of {training['batch_size']} "
            f"{facts.noun}{_micro_steps(training['accumulation'])}, {training['precision']}"
        ),
        (
            f"{optimizer['name']} ({settings}), {training['schedule']['name']} schedule, "
            f"{smoothed}seed {training['seed']}"
        ),
    ]


def _micro_steps(accumulation: int) -> str:
    return f" (in {accumulation} micro steps each)" if accumulation > 1 else ""


def _verification(facts: CardFacts) -> str:
    parity, gate, file, (label, drop) = facts.parity, facts.gate, facts.model_file, facts.drop
    same = ""
    if "agreement" in parity:
        least = f"{facts.least_agreement:.2%}" if facts.least_agreement else ""
        same = f"| {facts.agreement} | {parity['agreement']:.2%} | {least} |\n"
    return (
        "## Verification\n\n"
        f"ONNX Runtime compared with {facts.framework} on {parity['num_samples']:,} {facts.noun} "
        "of the data set, in batches of several sizes, some of them more than once.\n\n"
        "| | measured | allowed |\n|---|---|---|\n"
        f"| largest difference, relative to the largest output | {parity['relative']:.2e} "
        f"| {gate['tolerance']:.2e} |\n"
        f"| largest difference | {parity['max_abs']:.2e} | |\n"
        f"{same}"
        f"| {label} | {round(drop, 4) + 0.0:.4f} | {gate['max_metric_drop']:.4f} |\n\n"
        f"{facts.slimming or ''}Opset {file['opset']}, IR version {file['ir_version']}, "
        f"{file['num_nodes']} nodes, one file. `parity.npz` contains raw inputs and "
        f"{facts.framework}'s outputs, so that anyone can repeat the comparison; `manifest.json` "
        "lists every file with its sha256."
        + (f"\n\nOn other execution providers:\n\n{facts.providers}" if facts.providers else "")
    )


def _environment(facts: CardFacts) -> str:
    known = {name: value for name, value in facts.environment.items() if value is not None}
    patches = [PatchOutcome.model_validate(item) for item in known.pop("patches", ())]
    lines = [f"- {name}: {value}" for name, value in known.items()]
    parts = [f"## Environment\n\nJob `{facts.job_id}`.\n\n" + "\n".join(lines)]
    parts += [_patches(patches)] if patches else []
    parts += [_first_steps(facts.first_steps)] if facts.first_steps else []
    return "\n\n".join(parts)


def _patches(outcomes: list[PatchOutcome]) -> str:
    """Render the patches, those that changed something first."""
    order = {"applied": 0, "user": 1, "refused": 2, "skipped": 3}
    rows = [
        f"| {outcome.name} | {outcome.outcome} | {escape(outcome.why)}{_changes(outcome)} |"
        for outcome in sorted(outcomes, key=lambda outcome: order[outcome.outcome])
    ]
    return (
        "### Patches\n\nWhat was and was not changed for this hardware, and why.\n\n"
        "| patch | outcome | why |\n|---|---|---|\n" + "\n".join(rows)
    )


def _first_steps(found: FirstSteps) -> str:
    """Render the evidence that the GPU did the work, and what made it wait."""
    text = f"### First steps on the GPU\n\nEvidence: {describe_work(found.work)}."
    if not found.audited_steps:
        return text
    if not found.findings:
        return (
            f"{text} No operator of {found.audited_steps} steps worked on a large tensor on the "
            "CPU or made the host wait."
        )
    lines = "\n".join(f"- {escape(describe_finding(finding))}" for finding in found.findings)
    return (
        f"{text}\n\nOperators of {found.audited_steps} steps that worked on the CPU, or made the "
        f"host wait for the GPU:\n\n{lines}"
    )


def _changes(outcome: PatchOutcome) -> str:
    changes = {**outcome.environment, **outcome.settings}
    # The worker's folders are of no interest to a reader of the card.
    texts = [
        name if value.startswith("/") else f"{name}={value}" for name, value in changes.items()
    ]
    return f": {', '.join(f'`{text}`' for text in texts)}" if texts else ""
