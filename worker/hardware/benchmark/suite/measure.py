"""Measures the workloads one after another: rate, energy, and ONNX Runtime's providers."""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from redkiln.views.benchmark import summarise
from redkiln.views.hardware import Precision
from redkiln.views.suite import SuiteTest
from worker.hardware.benchmark.device import synchronize
from worker.hardware.benchmark.operations import DTYPES
from worker.hardware.benchmark.suite.count import TRAINING_FACTOR, count_bytes, count_flop
from worker.hardware.benchmark.suite.energy import PowerMeter, ReadPower
from worker.hardware.benchmark.suite.providers import time_providers
from worker.hardware.benchmark.suite.workloads import Workload
from worker.hardware.benchmark.timing import Budget, time_by_turns

ROUNDS = 20
Call = Callable[[], object]
Say = Callable[[str], None]


@dataclass(frozen=True)
class SuiteSetup:
    """What every workload needs.

    Attributes:
        seconds: Time for each workload.
        read_power: Reads the device's power; None if it is not measured.
        clock: Clock in seconds; `time.process_time` counts only this process, so that other
            programs on the same processor disturb a measurement of one thread less.
        with_providers: Whether ONNX Runtime's providers are measured too.
    """

    device: torch.device
    precision: Precision
    seconds: float
    read_power: ReadPower | None = None
    clock: Callable[[], float] = time.perf_counter
    with_providers: bool = False


def measure_suite(
    workloads: Sequence[Workload], setup: SuiteSetup, *, say: Say
) -> Iterator[SuiteTest]:
    """Measure each workload; one that fails carries the reason."""
    for workload in workloads:
        say(workload.id)
        yield measure_workload(workload, setup)
        if setup.device.type == "cuda":
            torch.cuda.empty_cache()


def measure_workload(workload: Workload, setup: SuiteSetup) -> SuiteTest:
    """Measure one workload."""
    blank = SuiteTest(
        id=workload.id,
        mode=workload.mode,
        batch_size=workload.batch_size,
        size=workload.size,
    )
    torch.manual_seed(0)
    try:
        model = workload.build()
        counted = _count(blank, model, workload)
        call = _build_call(model, workload, setup)
        return _time(counted, call, model, workload, setup)
    except torch.OutOfMemoryError as error:
        return blank.model_copy(update={"skipped": f"out of memory: {_first_line(error)}"})
    except torch.AcceleratorError:
        raise  # the device is lost, so everything else would fail too
    except (RuntimeError, ImportError) as error:
        return blank.model_copy(update={"skipped": f"not supported: {_first_line(error)}"})


def _count(blank: SuiteTest, model: nn.Module, workload: Workload) -> SuiteTest:
    model.eval()
    batch = workload.make_inputs(torch.device("cpu"))[:1]
    passes = TRAINING_FACTOR if workload.mode == "training" else 1.0
    size = workload.batch_size
    counted = {"flop": passes * size * count_flop(model, batch),
               "num_bytes": passes * count_bytes(model, batch, repeats=size)}  # fmt: skip
    return blank.model_copy(update=counted)


def _build_call(model: nn.Module, workload: Workload, setup: SuiteSetup) -> Call:
    device = setup.device
    model.to(device)
    batch = workload.make_inputs(device)
    autocast = _autocast(setup)
    if workload.mode == "inference":
        model.eval()

        def infer() -> torch.Tensor:
            with torch.inference_mode(), autocast():
                return model(batch)  # type: ignore[no-any-return]

        infer()
        return infer
    return _build_step(model.train(), batch, setup, autocast)


def _build_step(
    model: nn.Module,
    batch: torch.Tensor,
    setup: SuiteSetup,
    autocast: Callable[[], contextlib.AbstractContextManager[object]],
) -> Call:
    with torch.no_grad():
        shape = model(batch).shape
    classes = shape[1] if len(shape) != 3 else shape[2]
    places = shape[:1] + shape[2:] if len(shape) == 4 else shape[:-1]
    targets = torch.randint(classes, places, device=setup.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler(setup.device.type, enabled=setup.precision == "fp16")

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            logits = model(batch)
            logits = logits.transpose(1, 2) if logits.dim() == 3 else logits
            loss = functional.cross_entropy(logits, targets)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step()
    return step


def _time(
    test: SuiteTest, call: Call, model: nn.Module, workload: Workload, setup: SuiteSetup
) -> SuiteTest:
    meter = PowerMeter(setup.read_power) if setup.read_power else None
    samples: list[float] = []
    with meter or nullcontext():
        samples = time_by_turns(
            {test.id: call},
            synchronize=lambda: synchronize(setup.device),
            budget=Budget(setup.seconds, ROUNDS),
            clock=setup.clock,
        )[test.id]
    rate = summarise([workload.batch_size / each for each in samples])
    found: dict[str, object] = {"rate": rate}
    if meter is not None and meter.joules is not None:
        found["joules"] = meter.joules / meter.seconds * workload.batch_size / rate.value
    if setup.with_providers and workload.mode == "inference":
        timed = time_providers(model, workload, seconds=setup.seconds)
        found |= {"providers": timed.rates, "provider_errors": timed.errors}
    return test.model_copy(update=found)


def _autocast(setup: SuiteSetup) -> Callable[[], contextlib.AbstractContextManager[object]]:
    dtype, is_mixed = DTYPES[setup.precision], setup.precision != "fp32"

    def enter() -> contextlib.AbstractContextManager[object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.autocast(setup.device.type, dtype=dtype, enabled=is_mixed)

    return enter


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
