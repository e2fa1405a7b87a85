"""Judges how well a training used its machine: what limited it, and what to change.

The judgement is a pure function of facts; a fact that is not known is reported as unknown, never
guessed.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, Field

Bound = Literal[
    "start", "evaluation", "checkpoints", "data", "launch", "host", "compute", "memory", "unknown"
]

START_SHARE = 0.5
EVALUATION_SHARE = 0.25
CHECKPOINT_SHARE = 0.1
DATA_SHARE = 0.2
"""Share of the time above which a part is the first thing to improve."""
GOOD_BARE_SHARE = 0.85
"""A loop that reaches this share of its bare step's speed is not the problem."""
SHORT_STEP_MS = 8.0
LOW_PEAK_SHARE = 0.15
"""A step this short that uses so little of the GPU consists mainly of launches."""
HIGH_PEAK_SHARE = 0.4
SMALL_MEMORY_SHARE = 0.5


class EfficiencyFacts(BaseModel):
    """Measurements of one process.

    Attributes:
        device: `cpu` or `cuda`.
        seconds: All of the run's time by use: `start` (everything before the first step: data,
            model, trials, the export's rehearsal), `first steps`, `steps`, `data` (steps that
            waited for their batches), `checkpoints`, `evaluation`, `previews`, `profile`.
        num_steps: Number of steps in `steps`, `data` and `checkpoints` together.
        bare_step_seconds: Time of a bare step; None if it was not measured.
        why_not_bare: Why it was not measured.
        flops_per_step: Floating-point operations of a step; None if they were not counted.
        peak_tflops: The device's peak at the precision of training; None if unknown.
        why_no_peak: Why the peak is unknown.
        memory_share: Peak share of the device's memory.
        can_bf16: Whether the device has bf16 instructions.
        may_compile: Whether steps are not compiled, but could be: the worker has a compiler.
        is_precision_measured: Whether `auto` chose the precision, considering what is faster.
        reads_images: Whether samples are images, whose size can be chosen.
        host_peak_bytes: Peak resident memory of the process on the host.
        data_bytes: Size of the data set as training reads it.
    """

    device: str
    precision: str
    batch_size: int
    seconds: dict[str, float]
    num_steps: int
    bare_step_seconds: float | None = None
    why_not_bare: str | None = None
    flops_per_step: int | None = None
    peak_tflops: float | None = None
    why_no_peak: str | None = None
    memory_share: float | None = None
    can_bf16: bool = False
    may_compile: bool = True
    is_precision_measured: bool = False
    reads_images: bool = False
    host_peak_bytes: int | None = None
    data_bytes: int | None = None


class Change(BaseModel):
    """A change to try.

    Attributes:
        setting: A field of the spec, or a setting of the worker.
    """

    setting: str
    why: str


class Efficiency(BaseModel):
    """The judgement, as the report and the manifest contain it.

    Attributes:
        samples_per_second: Speed of training, including checkpoints but not evaluation.
        bare_share: Share of the bare step's speed; None if that was not measured.
        tflops: Floating-point operations of training, in 10^12 per second.
        peak_share: Share of the device's peak.
        bound_by: The part that limited training most.
        verdict: The same as a sentence.
        changes: Changes to try, most useful first.
    """

    facts: EfficiencyFacts
    samples_per_second: float
    bare_share: float | None = None
    tflops: float | None = None
    peak_share: float | None = None
    bound_by: Bound
    verdict: str
    changes: list[Change] = Field(default_factory=list)


def judge(facts: EfficiencyFacts) -> Efficiency | None:
    """Judge the facts; None if no step was timed."""
    step_seconds = _step_seconds(facts)
    if step_seconds is None:
        return None
    bare_share = tflops = peak_share = None
    if facts.bare_step_seconds is not None:
        bare_share = facts.bare_step_seconds / step_seconds
    if facts.flops_per_step is not None:
        tflops = facts.flops_per_step / step_seconds / 1e12
        peak_share = None if facts.peak_tflops is None else tflops / facts.peak_tflops
    bound, verdict = find_bound(facts, bare_share=bare_share, peak_share=peak_share)
    return Efficiency(
        facts=facts,
        samples_per_second=facts.batch_size / step_seconds,
        bare_share=bare_share,
        tflops=tflops,
        peak_share=peak_share,
        bound_by=bound,
        verdict=verdict,
        changes=list(find_changes(facts, bound)),
    )


def find_bound(
    facts: EfficiencyFacts, *, bare_share: float | None, peak_share: float | None
) -> tuple[Bound, str]:
    """Return what limited training most, and a sentence about it.

    Time outside of steps comes first, because faster steps would not reduce it.
    """
    seconds, total = facts.seconds, sum(facts.seconds.values())
    training = sum(seconds.get(part, 0.0) for part in ("steps", "data", "checkpoints"))
    started = seconds.get("start", 0.0) + seconds.get("first steps", 0.0)
    if started > START_SHARE * total:
        return "start", (
            f"{started / total:.0%} of the time went into preparation before training; the next "
            "job of this kind starts faster, because prepared data, export verdicts and tuned "
            "kernels are kept"
        )
    evaluated = seconds.get("evaluation", 0.0)
    if evaluated > EVALUATION_SHARE * (training + evaluated):
        share = evaluated / (training + evaluated)
        return "evaluation", f"evaluation took {share:.0%} of the time of steps and evaluations"
    if seconds.get("checkpoints", 0.0) > CHECKPOINT_SHARE * training:
        share = seconds["checkpoints"] / training
        return "checkpoints", f"writing checkpoints took {share:.0%} of the training"
    if seconds.get("data", 0.0) > DATA_SHARE * training:
        share = seconds["data"] / training
        return "data", f"steps waited for their batches {share:.0%} of the time"
    step_ms = 1000 * (_step_seconds(facts) or 0.0)
    if facts.device == "cpu":
        return "compute", "the CPU's arithmetic takes most of the time" + _unless(bare_share)
    is_idle = peak_share is not None and peak_share < LOW_PEAK_SHARE
    if step_ms < SHORT_STEP_MS and (is_idle or peak_share is None):
        return "launch", (
            f"a step takes {step_ms:.1f} ms, which is too little work for the GPU compared with "
            "the time to launch it"
        )
    if bare_share is not None and bare_share < GOOD_BARE_SHARE:
        return "host", (
            f"training has {bare_share:.0%} of the speed of a bare step, although batches are "
            "ready in time: the host does not give the GPU enough work"
        )
    if peak_share is None:
        return "unknown", (
            "the steps themselves take most of the time; the GPU's peak performance is unknown"
        )
    if peak_share >= HIGH_PEAK_SHARE:
        return "compute", f"the GPU's arithmetic reaches {peak_share:.0%} of its peak"
    return "memory", (
        f"the steps themselves take most of the time at {peak_share:.0%} of the GPU's peak: "
        "they move data in its memory more than they compute"
    )


def find_changes(facts: EfficiencyFacts, bound: Bound) -> Iterator[Change]:
    """Yield changes to try, most useful first."""
    if bound == "evaluation":
        yield Change(
            setting="training.validation_fraction",
            why="a smaller validation split is scored faster; it is scored after each epoch",
        )
    elif bound == "checkpoints":
        yield Change(
            setting="training.checkpoint_seconds",
            why="a larger value writes fewer checkpoints within epochs; each epoch ends with one "
            "anyway, so short epochs write many",
        )
    elif bound == "data":
        if facts.reads_images:
            yield Change(setting="training.augment", why="less augmentation, if the model allows")
            yield Change(
                setting="model.options.image_size",
                why="smaller inputs are prepared and computed faster",
            )
        yield Change(
            setting="REDKILN_THREADS", why="more CPU threads for the worker prepare batches faster"
        )
    elif bound in ("launch", "host"):
        if _has_room(facts):
            yield Change(
                setting="training.batch_size",
                why=f"a batch larger than {facts.batch_size} gives the GPU more work at once",
            )
        if facts.may_compile:
            yield Change(setting="training.compile", why="compiling makes fewer, larger kernels")
    may_narrow = facts.precision == "fp32" and facts.can_bf16 and not facts.is_precision_measured
    if bound in ("compute", "memory", "unknown") and may_narrow:
        yield Change(setting="training.precision", why="this device computes bf16 faster than fp32")
    if bound == "memory" and facts.may_compile:
        yield Change(setting="training.compile", why="fused kernels read and write less memory")
    if bound == "compute" and facts.device != "cpu":
        yield Change(
            setting="resources.gpus",
            why="more GPUs share the work; a smaller model or input needs less of it",
        )


def _step_seconds(facts: EfficiencyFacts) -> float | None:
    spent = sum(facts.seconds.get(part, 0.0) for part in ("steps", "data", "checkpoints"))
    return spent / facts.num_steps if facts.num_steps and spent > 0 else None


def _has_room(facts: EfficiencyFacts) -> bool:
    return facts.memory_share is None or facts.memory_share < SMALL_MEMORY_SHARE


def _unless(bare_share: float | None) -> str:
    if bare_share is None:
        return ""
    return f"; training reaches {bare_share:.0%} of its bare step's speed"
