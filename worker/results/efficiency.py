"""How well a training used its machine: what it reached, what held it back, and what to change.

Facts go in, a judgement comes out; what is not known is said and never guessed.
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
"""Shares of the time above which that part is what to look at first."""
GOOD_BARE_SHARE = 0.85
"""A loop that reaches this much of its bare step is not what is slow."""
SHORT_STEP_MS = 8.0
LOW_PEAK_SHARE = 0.15
"""A step as short as this that uses as little of the card consists of launches."""
HIGH_PEAK_SHARE = 0.4
SMALL_MEMORY_SHARE = 0.5


class EfficiencyFacts(BaseModel):
    """What was measured, of one process.

    Attributes:
        device: `cpu` or `cuda`.
        seconds: all of the run's, by what they went into: `start` (whatever came before the first
            step: data, model, trials, the export's rehearsal), `first steps`, `steps`, `data`
            (steps that waited for their batches), `checkpoints`, `evaluation`, `previews`,
            `profile`.
        num_steps: made in `steps`, `data` and `checkpoints` together.
        bare_step_seconds: None where it was not measured.
        why_not_bare: then: why.
        flops_per_step: None where it was not counted.
        peak_tflops: of the device at the precision that it trained in; None when it is not known.
        why_no_peak: then: why.
        memory_share: of the device's memory, at the peak.
        can_bf16: whether the device computes bf16 in its own instructions.
        is_compiled: whether the step is a compiled one.
        is_precision_measured: whether `auto` chose the precision: what is faster here was weighed.
        reads_images: whether samples are images, of a size that can be chosen.
        host_peak_bytes: resident memory of the process on the host, at its peak.
        data_bytes: of the data set as training reads it.
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
    is_compiled: bool = False
    is_precision_measured: bool = False
    reads_images: bool = False
    host_peak_bytes: int | None = None
    data_bytes: int | None = None


class Change(BaseModel):
    """Something to try.

    Attributes:
        setting: a field of the spec, or a setting of the worker's.
    """

    setting: str
    why: str


class Efficiency(BaseModel):
    """The judgement, as it stands in the report and the manifest.

    Attributes:
        samples_per_second: of training, checkpoints included and evaluation excluded.
        bare_share: of the bare step's samples/s; None where that was not measured.
        tflops: floating-point operations in training, in 10^12 a second.
        peak_share: of the device's peak.
        bound_by: what held it back most.
        verdict: that in a sentence.
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
    """What the facts say; None when no step was timed."""
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
    """What held the training back most, and a sentence about it.

    What lies around the steps comes first, as no faster step would help against it.
    """
    seconds, total = facts.seconds, sum(facts.seconds.values())
    training = sum(seconds.get(part, 0.0) for part in ("steps", "data", "checkpoints"))
    started = seconds.get("start", 0.0) + seconds.get("first steps", 0.0)
    if started > START_SHARE * total:
        return "start", f"{started / total:.0%} of the time went into getting ready to train"
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
        return "compute", "the CPU's arithmetic is what takes the time" + _unless(bare_share)
    is_idle = peak_share is not None and peak_share < LOW_PEAK_SHARE
    if step_ms < SHORT_STEP_MS and (is_idle or peak_share is None):
        return "launch", (
            f"a step takes {step_ms:.1f} ms, too little work for the card beside what it takes to "
            "start it"
        )
    if bare_share is not None and bare_share < GOOD_BARE_SHARE:
        return "host", (
            f"training reaches {bare_share:.0%} of its bare step, and batches are not what is "
            "slow: the host does not keep the card busy"
        )
    if peak_share is None:
        return "unknown", (
            "the steps themselves take the time; of what the card could do at most nothing is known"
        )
    if peak_share >= HIGH_PEAK_SHARE:
        return "compute", f"the card's arithmetic is used to {peak_share:.0%} of its peak"
    return "memory", (
        f"the steps themselves take the time at {peak_share:.0%} of the card's peak: moving data "
        "within its memory more than arithmetic"
    )


def find_changes(facts: EfficiencyFacts, bound: Bound) -> Iterator[Change]:
    """What to try against what held the training back, most useful first."""
    if bound == "start":
        yield Change(
            setting="training.epochs",
            why="more of them make getting ready a smaller part; the next job of the kind starts "
            "faster by itself, as prepared data, export verdicts and tuned kernels are kept",
        )
    elif bound == "evaluation":
        yield Change(
            setting="training.validation_fraction",
            why="a smaller validation split is scored faster; it is scored after each epoch",
        )
    elif bound == "checkpoints":
        yield Change(
            setting="training.checkpoint_seconds",
            why="a larger one makes fewer checkpoints between epochs; each epoch makes one anyway, "
            "so short epochs make many",
        )
    elif bound == "data":
        if facts.reads_images:
            yield Change(setting="training.augment", why="less of it, where the model allows")
            yield Change(
                setting="model.options.image_size",
                why="smaller inputs are made and computed faster",
            )
        yield Change(
            setting="REDKILN_THREADS", why="more CPU threads for the worker make batches faster"
        )
    elif bound in ("launch", "host"):
        if _has_room(facts):
            yield Change(
                setting="training.batch_size",
                why=f"larger than {facts.batch_size} gives the card more to do at once",
            )
        if not facts.is_compiled:
            yield Change(setting="training.compile", why="fewer, larger kernels per step")
    may_narrow = facts.precision == "fp32" and facts.can_bf16 and not facts.is_precision_measured
    if bound in ("compute", "memory", "unknown") and may_narrow:
        yield Change(setting="training.precision", why="this device computes bf16 faster than fp32")
    if bound == "memory" and not facts.is_compiled:
        yield Change(
            setting="training.compile", why="fused kernels read and write less of the memory"
        )
    if bound == "compute":
        yield Change(
            setting="resources.device" if facts.device == "cpu" else "resources.gpus",
            why="a GPU makes such steps many times faster"
            if facts.device == "cpu"
            else "further cards, or a smaller model or input: this one is busy",
        )


def _step_seconds(facts: EfficiencyFacts) -> float | None:
    spent = sum(facts.seconds.get(part, 0.0) for part in ("steps", "data", "checkpoints"))
    return spent / facts.num_steps if facts.num_steps and spent > 0 else None


def _has_room(facts: EfficiencyFacts) -> bool:
    return facts.memory_share is None or facts.memory_share < SMALL_MEMORY_SHARE


def _unless(bare_share: float | None) -> str:
    if bare_share is None:
        return ""
    return f"; training reaches {bare_share:.0%} of its bare step"
