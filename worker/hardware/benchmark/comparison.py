"""Key tests without and with a change to the environment, in two processes that alternate.

Each process (`module`) prepares its tests and prints their outputs as a line
`{"outputs": {id: numbers}}`. From then on it answers each line that it reads with a line
`{"seconds": {id: seconds}}`, one sample of each test. While one process measures, the other waits.
"""

import json
import math
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from redkiln.views.benchmark import Comparison, Pair, summarise
from redkiln.views.hardware import PatchOutcome, Precision
from worker.hardware.benchmark.plan import SCALE, Case
from worker.hardware.children import start_child

ALLOWED_DIFFERENCE: dict[Precision, float] = {"fp32": 1e-3, "fp16": 2e-2, "bf16": 8e-2}
"""Largest difference of outputs, relative to the largest one, that still counts as rounding.

Source: 24, 11 and 8 bits of mantissa; through the 18 layers of a ResNet, roundings of half a unit
add up to some tens of units."""
INFINITE = 1e9
MIN_ROUNDS = 3
LOOK_SECONDS = 0.5
START_SECONDS = 300.0
"""Importing torch, compiling kernels and tuning products may take minutes the first time."""


@dataclass(frozen=True)
class Contest:
    """What is compared.

    Attributes:
        without: Environment of the first process.
        with_: Environment of the second process.
        module: Module that both processes run.
        arguments: Arguments of both processes.
        with_arguments: Further arguments of the second process.
        variables: Variables that only the second process has, for the report.
        patches: Patches that only the second process has.
    """

    name: str
    title: str
    module: str
    without: Mapping[str, str]
    with_: Mapping[str, str]
    arguments: Sequence[str] = ()
    with_arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    patches: Sequence[PatchOutcome] = ()


class ChildFailed(Exception):  # noqa: N818  # the name states the fault
    """A process of a comparison ended before it had finished."""


def run_contest(
    contest: Contest,
    cases: Sequence[Case],
    *,
    rounds: int,
    seconds: float,
    on_round: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Measure both sides alternately; each round starts with the other side."""
    try:
        outputs, samples = _measure(
            contest, rounds=rounds, seconds=seconds, on_round=on_round, clock=clock
        )
    except ChildFailed as error:
        return skip_contest(contest.name, contest.title, str(error))
    differences = find_differences(outputs[0]["outputs"], outputs[1]["outputs"])
    allowed = {case.id: ALLOWED_DIFFERENCE[case.precision or "fp32"] for case in cases}
    return Comparison(
        name=contest.name,
        title=contest.title,
        pairs=pair_up(cases, samples[0], samples[1]),
        variables=dict(contest.variables),
        largest_difference=max(differences.values(), default=0.0),
        agrees=all(gap <= allowed[name] for name, gap in differences.items()),
        patches=list(contest.patches),
    )


def skip_contest(
    name: str, title: str, why: str, *, patches: Sequence[PatchOutcome] = ()
) -> Comparison:
    """Return a comparison that was not made, with the reason."""
    return Comparison(name=name, title=title, skipped=why, patches=list(patches))


def pair_up(
    cases: Sequence[Case],
    without: Sequence[Mapping[str, float]],
    with_: Sequence[Mapping[str, float]],
) -> list[Pair]:
    """Pair the rates of each test on both sides, from the seconds of their rounds."""
    pairs = []
    for case in cases:
        work = case.work / SCALE[case.unit]
        sides = [
            [work / round_[case.id] for round_ in rounds if case.id in round_]
            for rounds in (without, with_)
        ]
        if not all(sides):
            continue
        before, after = (summarise(side) for side in sides)
        pairs.append(
            Pair(
                id=case.id,
                title=case.title,
                unit=case.unit,
                without=before.value,
                with_=after.value,
                spread=max(before.spread, after.spread),
                num_samples=min(before.num_samples, after.num_samples),
            )
        )
    return pairs


def find_differences(
    one: Mapping[str, Sequence[float]], other: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return the differences between outputs, relative to the largest output of each test.

    An output that is missing on one side or not finite differs by 1e9: JSON has no infinity.
    """
    names = [*one, *(name for name in other if name not in one)]
    return {name: _difference(one.get(name, ()), other.get(name, ())) for name in names}


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    if not one or len(one) != len(other):
        return INFINITE
    scale = max(abs(value) for value in one) or 1.0
    gap = max(abs(a - b) for a, b in zip(one, other, strict=True)) / scale
    return gap if math.isfinite(gap) and math.isfinite(scale) else INFINITE


class _Side:
    """One process; a thread reads each of its pipes, so that none of them fills up."""

    def __init__(self, child: "subprocess.Popen[str]") -> None:
        self._child = child
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._errors: deque[str] = deque(maxlen=20)
        for listen in (self._read_lines, self._read_errors):
            threading.Thread(target=listen, daemon=True).start()

    def ask(self) -> None:
        """Request a sample."""
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):  # its last output will explain why
            self._child.stdin.write("\n")
            self._child.stdin.flush()

    def listen(self, *, seconds: float, on_wait: Callable[[], None]) -> dict[str, Any]:
        """Return its next answer.

        Raises:
            ChildFailed: It ended, or did not answer in time.
        """
        for _ in range(max(1, math.ceil(seconds / LOOK_SECONDS))):
            on_wait()
            try:
                line = self._lines.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
            if line is None:
                raise ChildFailed(self._last_words())
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise ChildFailed(f"a process of the comparison did not answer within {seconds:.0f} s")

    def _last_words(self) -> str:
        status = self._child.wait()
        words = self._errors[-1] if self._errors else "no output"
        return f"a process of the comparison exited with status {status}: {words[:300]}"

    def _read_lines(self) -> None:
        assert self._child.stdout is not None
        with suppress(ValueError):  # the pipe was closed, so nothing waits for an answer
            for line in self._child.stdout:
                if line.startswith("{"):  # libraries may print other lines
                    self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._child.stderr is not None
        with suppress(ValueError):
            for line in self._child.stderr:
                if line.strip():
                    self._errors.append(line.strip())


def _measure(
    contest: Contest,
    *,
    rounds: int,
    seconds: float,
    on_round: Callable[[], None],
    clock: Callable[[], float],
) -> tuple[list[dict[str, Any]], tuple[list[dict[str, float]], list[dict[str, float]]]]:
    patience = max(START_SECONDS, seconds)
    samples: tuple[list[dict[str, float]], list[dict[str, float]]] = ([], [])
    with ExitStack() as held:
        sides: list[_Side] = []
        outputs = []
        for environ, further in (
            (contest.without, ()),
            (contest.with_, contest.with_arguments),
        ):
            arguments = [*contest.arguments, *further]
            child = held.enter_context(start_child(contest.module, arguments, environ=environ))
            sides.append(_Side(child))
            # One after the other, so that neither disturbs the other's start.
            outputs.append(sides[-1].listen(seconds=patience, on_wait=on_round))
        began = clock()
        for number in range(rounds):
            if number >= MIN_ROUNDS and clock() - began > seconds:
                break
            for place in (0, 1) if number % 2 == 0 else (1, 0):
                sides[place].ask()
                answer = sides[place].listen(seconds=patience, on_wait=on_round)
                samples[place].append(answer["seconds"])
    return outputs, samples
