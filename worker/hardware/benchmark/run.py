"""Measures the groups of one process one after the other, each within its share of the time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from redkiln.views.benchmark import Measurement, summarise
from redkiln.views.hardware import GpuFacts
from worker.hardware.benchmark.device import synchronize
from worker.hardware.benchmark.operations import BuildModel, Call, build_call
from worker.hardware.benchmark.plan import SCALE, Case, Group
from worker.hardware.benchmark.timing import Budget, Clock, time_by_turns


@dataclass(frozen=True)
class BenchmarkSetup:
    """What every measurement needs.

    Attributes:
        gpu: Facts of the device, for its peaks; None on a CPU.
        rounds: Most samples of each test.
        on_round: Called before each sample, to report that the benchmark is still running.
    """

    device: torch.device
    build_model: BuildModel
    gpu: GpuFacts | None
    rounds: int
    on_round: Callable[[], None] = lambda: None
    clock: Clock = time.perf_counter


def measure_group(group: Group, bench: BenchmarkSetup, *, seconds: float) -> list[Measurement]:
    """Measure the members of a group alternately; a failed one gets the reason."""
    failed: dict[str, str] = {}
    calls = _build_calls(group.cases, bench, failed)
    samples: dict[str, list[float]] = {}
    if calls:
        samples = time_by_turns(
            calls,
            synchronize=lambda: synchronize(bench.device),
            budget=Budget(seconds, bench.rounds),
            on_round=bench.on_round,
            clock=bench.clock,
        )
    calls.clear()
    if bench.device.type == "cuda":
        torch.cuda.empty_cache()
    return [
        describe(case, samples.get(case.id), peak=find_peak(case, bench.gpu), failed=failed)
        for case in group.cases
    ]


def describe(
    case: Case,
    seconds: Sequence[float] | None,
    *,
    peak: float | None,
    failed: dict[str, str],
) -> Measurement:
    """Return a case with the rate of its samples, or with the reason why it is missing."""
    measured = Measurement(
        id=case.id,
        test=case.test,
        title=case.title,
        unit=case.unit,
        precision=case.precision,
        layout=case.layout,
        size=case.size,
        peak=peak,
        flop_per_byte=case.work / case.moved_bytes if case.moved_bytes else None,
        skipped=case.skipped or failed.get(case.id),
    )
    if not seconds:
        return measured
    work = case.work / SCALE[case.unit]
    rate = summarise([work / each for each in seconds])
    return measured.model_copy(update={"rate": rate, "seconds": work / rate.value})


def find_peak(case: Case, gpu: GpuFacts | None) -> float | None:
    """Return the device's peak in the unit of a case; None if unknown."""
    if gpu is None:
        return None
    if case.unit == "TFLOP/s":
        return gpu.peak_tflops.get(case.precision or "")
    if case.test == "memory" and gpu.memory_bandwidth_bytes_per_second is not None:
        return gpu.memory_bandwidth_bytes_per_second / 1e9
    return None


def _build_calls(
    cases: Sequence[Case], bench: BenchmarkSetup, failed: dict[str, str]
) -> dict[str, Call]:
    """Build the calls of the members that work; each is tried once."""
    calls: dict[str, Call] = {}
    for case in cases:
        if case.skipped is not None:
            continue
        try:
            call = build_call(case, device=bench.device, build_model=bench.build_model)
            call()
            synchronize(bench.device)
        except torch.OutOfMemoryError as error:
            failed[case.id] = f"skipped: out of memory ({_first_line(error)})"
        except torch.AcceleratorError:
            raise  # the device is lost, so everything else would fail too
        except RuntimeError as error:
            failed[case.id] = f"not supported: {_first_line(error)}"
        else:
            calls[case.id] = call
    return calls


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
