"""A benchmark from plan to result: every part within its share of the remaining time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from redkiln.tasks.benchmark import Measure
from redkiln.views.benchmark import BenchmarkResult, Comparison, Machine, Measurement
from worker.hardware.benchmark.advice import recommend
from worker.hardware.benchmark.allreduce import measure_allreduce, skip_allreduce
from worker.hardware.benchmark.comparison import Contest, run_contest, skip_contest
from worker.hardware.benchmark.plan import Case, DeviceFacts, Group, plan_groups
from worker.hardware.benchmark.run import BenchmarkSetup, describe, find_peak, measure_group
from worker.hardware.benchmark.words import describe_comparison, describe_group

LEFT_OUT = "skipped: no time was left (measure.seconds)"
ALLREDUCE_SECONDS = 60.0
"""Least time limit; RCCL takes about ten seconds to find its routes."""
CONTEST_WEIGHT = 2.0
"""Two processes have to start and to warm up before they measure."""


@dataclass(frozen=True)
class Part:
    """One part of a benchmark.

    Attributes:
        weight: Its share of the time, relative to the others.
        do: Runs the part within a number of seconds.
        leave: Returns the results if no time is left.
    """

    title: str
    weight: float
    do: Callable[[float], "Found"]
    leave: Callable[[], "Found"]


@dataclass(frozen=True)
class Found:
    """The results of a part."""

    measurements: list[Measurement] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)


@dataclass(frozen=True)
class Listener:
    """Receives a benchmark's progress.

    Attributes:
        begin: Called when a part begins: title, index, number of parts, and seconds left.
        alive: Called before each sample.
        say: Receives a line of text for each result.
    """

    begin: Callable[[str, int, int, float], None]
    alive: Callable[[], None]
    say: Callable[[str], None]


@dataclass(frozen=True)
class Session:
    """Everything that a benchmark needs.

    Attributes:
        measure: The resolved settings.
        contests: Comparisons to make, each with its key tests, or already skipped.
        environ: Environment of the all-reduce's processes.
    """

    measure: Measure
    facts: DeviceFacts
    machine: Machine
    bench: BenchmarkSetup
    notes: Sequence[str]
    contests: Sequence[tuple[Contest, Sequence[Case]] | Comparison]
    environ: Mapping[str, str]


def run_session(session: Session, listener: Listener) -> BenchmarkResult:
    """Measure everything and derive recommendations."""
    clock = session.bench.clock
    began, at = clock(), datetime.now(UTC)
    deadline = began + session.measure.seconds
    parts = list_parts(session, listener)
    found: list[Found] = []
    for number, part in enumerate(parts):
        left = deadline - clock()
        listener.begin(part.title, number, len(parts), max(0.0, left))
        share = part.weight / max(sum(other.weight for other in parts[number:]), part.weight or 1)
        news = part.do(left * share) if left > 0 else part.leave()
        for line in (
            *describe_group(news.measurements),
            *map(describe_comparison, news.comparisons),
        ):
            listener.say(line)
        found.append(news)
    result = BenchmarkResult(
        at=at,
        seconds=clock() - began,
        machine=session.machine,
        notes=list(session.notes),
        measurements=[item for news in found for item in news.measurements],
        comparisons=[item for news in found for item in news.comparisons],
    )
    return result.model_copy(update={"recommendations": recommend(result)})


def list_parts(session: Session, listener: Listener) -> list[Part]:
    """List the parts in their order."""
    groups = plan_groups(session.measure, session.facts)
    parts = [_part_of_group(group, session) for group in groups]
    if "allreduce" in session.measure.tests:
        parts.append(_part_of_allreduce(session))
    return parts + [_part_of_contest(item, session, listener) for item in session.contests]


def _part_of_group(group: Group, session: Session) -> Part:
    def leave() -> Found:
        gpu = session.bench.gpu
        why = {case.id: LEFT_OUT for case in group.cases}
        return Found([describe(c, None, peak=find_peak(c, gpu), failed=why) for c in group.cases])

    return Part(
        group.title,
        group.weight,
        lambda seconds: Found(measure_group(group, session.bench, seconds=seconds)),
        leave,
    )


def _part_of_allreduce(session: Session) -> Part:
    num_gpus = session.facts.num_gpus
    if num_gpus < 2:
        has = "a CPU" if session.facts.kind == "cpu" else "one GPU (resources.gpus: 2)"
        return _known(
            "all-reduce", Found(skip_allreduce(f"needs several GPUs; this job has {has}"))
        )

    def do(seconds: float) -> Found:
        return Found(
            measure_allreduce(
                num_gpus,
                device_type="cuda",
                rounds=session.measure.samples,
                environ=session.environ,
                timeout_seconds=max(ALLREDUCE_SECONDS, seconds),
            )
        )

    return Part("all-reduce", 1.0, do, lambda: Found(skip_allreduce(LEFT_OUT)))


def _part_of_contest(
    item: tuple[Contest, Sequence[Case]] | Comparison, session: Session, listener: Listener
) -> Part:
    if isinstance(item, Comparison):
        return _known(item.title, Found(comparisons=[item]))
    contest, cases = item

    def do(seconds: float) -> Found:
        comparison = run_contest(
            contest,
            cases,
            rounds=session.measure.samples,
            seconds=seconds,
            on_round=listener.alive,
            clock=session.bench.clock,
        )
        return Found(comparisons=[comparison])

    def leave() -> Found:
        return Found(comparisons=[skip_contest(contest.name, contest.title, LEFT_OUT)])

    return Part(contest.title, CONTEST_WEIGHT, do, leave)


def _known(title: str, found: Found) -> Part:
    """Return a part that needs no time."""
    return Part(title, 0.0, lambda _: found, lambda: found)
