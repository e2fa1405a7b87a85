"""A benchmark from its plan to its result: every part within its share of the time that is left."""

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

LEFT_OUT = "left out: the time was over (measure.seconds)"
ALLREDUCE_SECONDS = 60.0
"""At least; RCCL takes some ten to find its ways."""
CONTEST_WEIGHT = 2.0
"""Two processes have to start and to warm up before they measure."""


@dataclass(frozen=True)
class Part:
    """One of the things to do.

    Attributes:
        weight: its share of the time, against the others'.
        do: does it within so many seconds.
        leave: what is said instead when the time is over.
    """

    title: str
    weight: float
    do: Callable[[float], "Found"]
    leave: Callable[[], "Found"]


@dataclass(frozen=True)
class Found:
    """What a part brought."""

    measurements: list[Measurement] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)


@dataclass(frozen=True)
class Listener:
    """Who hears how it goes on.

    Attributes:
        begin: a part begins: its title, its place, how many there are, seconds that are left.
        alive: called before each sample.
        say: a line for people, when something is measured.
    """

    begin: Callable[[str, int, int, float], None]
    alive: Callable[[], None]
    say: Callable[[str], None]


@dataclass(frozen=True)
class Session:
    """All that a benchmark needs to know.

    Attributes:
        measure: resolved.
        contests: comparisons to make, each with its key tests, or already skipped.
        environ: of the processes of an all-reduce.
    """

    measure: Measure
    facts: DeviceFacts
    machine: Machine
    bench: BenchmarkSetup
    notes: Sequence[str]
    contests: Sequence[tuple[Contest, Sequence[Case]] | Comparison]
    environ: Mapping[str, str]


def run_session(session: Session, listener: Listener) -> BenchmarkResult:
    """Measure everything, and draw the conclusions."""
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
    """What there is to do, in its order."""
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
        made = run_contest(
            contest,
            cases,
            rounds=session.measure.samples,
            seconds=seconds,
            on_round=listener.alive,
            clock=session.bench.clock,
        )
        return Found(comparisons=[made])

    def leave() -> Found:
        return Found(comparisons=[skip_contest(contest.name, contest.title, LEFT_OUT)])

    return Part(contest.title, CONTEST_WEIGHT, do, leave)


def _known(title: str, found: Found) -> Part:
    """A part that takes no time."""
    return Part(title, 0.0, lambda _: found, lambda: found)
