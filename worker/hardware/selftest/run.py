"""The self-test of one device: every case in every precision, with every selectable library.

Numbers are drawn on the CPU from a fixed seed, rounded to the tested type, and computed twice.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain

import torch

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea, SelfTestReport, SelfTestResult
from worker.hardware.health.selftest_words import FUSED_ATTENTION, name_test
from worker.hardware.health.verdicts import (
    LARGE_OUTPUT,
    WITHOUT_MIOPEN,
    avoids_hipblaslt,
    is_refused_by_miopen,
)
from worker.hardware.selftest.cases import Case, Results, build_cases
from worker.hardware.selftest.compare import Difference, compare
from worker.hardware.selftest.large import count_large_elements, multiply_large
from worker.hardware.selftest.libraries import list_blas, list_libraries, use_library
from worker.hardware.selftest.operations import build_operations
from worker.hardware.selftest.sgd import BATCH, DTYPES, SIDE, STEPS, train
from worker.hardware.selftest.tolerance import allowed_error

SEED = 20
SGD_LAYERS = 9
"""Layers of the small network: consecutive roundings up to a loss; times STEPS, up to weights."""
NOT_OFFERED = ("No available kernel", "No viable backend")
"""Torch's messages if fused attention does not exist for this device, type or shape."""

ALIVE = 2.0

Say = Callable[[str], None]


def run_self_test(
    blank: SelfTestReport, *, precisions: Sequence[Precision], say: Say, fused_death: str = ""
) -> SelfTestReport:
    """Test a device that torch can open.

    Args:
        blank: Report that names the device and whether the test is quick; may be the CPU.
        precisions: Types to test.
        say: Receives the name of each test before it runs, so that a crash shows which one it was.
        fused_death: How an earlier test died in fused attention, which is then not tried but
            reported as an error; empty if it is tried.

    Returns:
        The completed report.

    Raises:
        torch.OutOfMemoryError: Another program uses the device's memory.
    """
    began = time.perf_counter()
    results: list[SelfTestResult] = []
    try:
        for result in _run_all(blank, precisions, say, fused_death):
            results.append(result)  # noqa: PERF402  # keeps earlier results if the device is lost
    except torch.AcceleratorError:
        say("the device is lost; the remaining tests are skipped")
    is_good = all(result.verdict == "passed" for result in results)
    return blank.model_copy(
        update={
            "at": datetime.now(UTC),
            "status": "passed" if is_good else "failed",
            "cause": "",
            "results": results,
            "seconds": time.perf_counter() - began,
        }
    )


def describe_device(device: torch.device) -> dict[str, str | None]:
    """Return name, target and address of a device, as torch reports them."""
    if device.type != "cuda":
        return {"name": "CPU"}
    properties = torch.cuda.get_device_properties(device)
    gfx = getattr(properties, "gcnArchName", "").split(":")[0] if torch.version.hip else ""
    domain = getattr(properties, "pci_domain_id", 0)
    bus = getattr(properties, "pci_bus_id", None)
    slot = getattr(properties, "pci_device_id", None)
    address = None if bus is None or slot is None else f"{domain:04x}:{bus:02x}:{slot:02x}.0"
    return {
        "name": properties.name,
        "gfx": gfx or f"sm_{properties.major}{properties.minor}",
        "pci_address": address,
    }


def _run_all(
    blank: SelfTestReport, precisions: Sequence[Precision], say: Say, fused_death: str
) -> Iterator[SelfTestResult]:
    device = torch.device(blank.device)
    has_lt = not avoids_hipblaslt(blank.settings)
    if fused_death:
        yield _report_fused(fused_death)
    with _exact_float32():
        for precision in precisions:
            for case in _list_cases(precision, is_quick=blank.is_quick):
                inputs = draw_inputs(case, precision)
                want = case.compute([t.double() for t in inputs])
                for library in list_libraries(case, device, has_lt=has_lt):
                    if fused_death and library in FUSED_ATTENTION:
                        continue
                    say(name_test(precision, want, library, case.shape))
                    run = partial(compute_case, case, library, device, precision, inputs, want)
                    yield from _again_without_miopen(run)
            say(f"{precision} sgd")
            yield from _again_without_miopen(partial(_run_sgd, device, precision))
        if device.type == "cuda" and not blank.is_quick:
            yield from _run_large(device, precisions, say, has_lt=has_lt)


def _run_large(
    device: torch.device, precisions: Sequence[Precision], say: Say, *, has_lt: bool
) -> Iterator[SelfTestResult]:
    say("reduction of 2 GiB")
    yield from count_large_elements(device)
    for precision in precisions:
        for library in list_blas(device, has_lt=has_lt):
            say(name_test(precision, ["gemm"], library, LARGE_OUTPUT))
            with use_library(library):
                yield from multiply_large(device, precision, library)
            torch.cuda.empty_cache()


def _report_fused(death: str) -> SelfTestResult:
    return SelfTestResult(
        area="attention_forward",
        precision="fp32",
        library="flash",
        shape="not tried again",
        reduction_length=1,
        tolerance=allowed_error("fp32", reduction_length=1),
        verdict="error",
        seconds=0.0,
        error=death[:500],
    )


def _list_cases(precision: Precision, *, is_quick: bool) -> Iterator[Case]:
    cases = chain(build_cases(is_quick=is_quick), () if is_quick else build_operations())
    return (case for case in cases if precision in case.precisions)


def _again_without_miopen(
    run: Callable[[], Iterator[SelfTestResult]],
) -> Iterator[SelfTestResult]:
    """Run a test, and run it again without MIOpen if MIOpen refused to compute it.

    Source: ROCm/MIOpen#3964 (every convolution fails on gfx1151, and works without MIOpen).
    """
    has_refused = False
    for result in run():
        has_refused |= is_refused_by_miopen(result)
        yield result
    if not has_refused:
        return
    with torch.backends.cudnn.flags(enabled=False):
        for result in run():
            yield result.model_copy(update={"library": WITHOUT_MIOPEN})


def compute_case(
    case: Case,
    library: str | None,
    device: torch.device,
    precision: Precision,
    inputs: Sequence[torch.Tensor],
    want: Results,
) -> Iterator[SelfTestResult]:
    """Compute a case on a device with one library, and compare it with the right results."""
    began = time.perf_counter()
    try:
        with use_library(library):
            got = case.compute([t.clone().to(device) for t in inputs])
            found = {area: compare(got[area], want[area]) for area in want}
    except torch.OutOfMemoryError:
        raise  # it says nothing about the numbers
    except RuntimeError as error:
        if not any(words in str(error) for words in NOT_OFFERED):
            yield from _broken(case, library, precision, error)
        if isinstance(error, torch.AcceleratorError) and not is_alive(device):
            raise
        return
    seconds = (time.perf_counter() - began) / len(found)
    for area, difference in found.items():
        yield _judge(
            difference,
            area=area,
            precision=precision,
            library=library,
            shape=case.shape,
            reduction_length=case.reduction_lengths[area],
            depth=case.depth,
            seconds=seconds,
        )


def is_alive(device: torch.device) -> bool:
    """Return whether a device still computes after an error of its runtime.

    A fault in memory ends the whole context. Missing kernels do not: fused attention without its
    images fails with hipErrorInvalidValue, and everything else works.

    Source: pytorch/pytorch#194498, read 2026-11-23.
    """
    try:
        return float(torch.ones(1, device=device).add(1)) == ALIVE
    except RuntimeError:
        return False


def _run_sgd(device: torch.device, precision: Precision) -> Iterator[SelfTestResult]:
    began = time.perf_counter()
    want = train(torch.device("cpu"), dtype=torch.float64, precision="fp32", seed=SEED)
    length = BATCH * SIDE * SIDE
    try:
        got = train(device, dtype=torch.float32, precision=precision, seed=SEED)
        found = {
            "losses": (compare([got.losses], [want.losses]), SGD_LAYERS),
            "weights": (compare(got.weights, want.weights), SGD_LAYERS * STEPS),
        }
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        yield _broken_result("sgd", None, precision, f"{STEPS} steps", length, error)
        if isinstance(error, torch.AcceleratorError) and not is_alive(device):
            raise
        return
    seconds = (time.perf_counter() - began) / len(found)
    for what, (difference, depth) in found.items():
        yield _judge(
            difference,
            area="sgd",
            precision=precision,
            library=None,
            shape=f"{what} of {STEPS} steps",
            reduction_length=length,
            depth=depth,
            seconds=seconds,
        )


def _judge(
    difference: Difference,
    *,
    area: SelfTestArea,
    precision: Precision,
    library: str | None,
    shape: str,
    reduction_length: int,
    depth: int,
    seconds: float,
) -> SelfTestResult:
    allowed = allowed_error(precision, reduction_length=reduction_length, depth=depth)
    is_good = difference.max_rel is not None and difference.max_rel <= allowed
    return SelfTestResult(
        area=area,
        precision=precision,
        library=library,
        shape=shape,
        reduction_length=reduction_length,
        max_abs_error=difference.max_abs,
        max_rel_error=difference.max_rel,
        tolerance=allowed,
        zeros_ratio=difference.zeros_ratio,
        nan_count=difference.nan_count,
        verdict="passed" if is_good else "failed",
        seconds=seconds,
    )


def draw_inputs(case: Case, precision: Precision) -> list[torch.Tensor]:
    """Draw a case's inputs on the CPU, rounded to the tested type."""
    generator = torch.Generator().manual_seed(SEED)
    tested = [torch.randn(size, generator=generator).to(DTYPES[precision]) for size in case.sizes]
    return tested + [torch.randn(size, generator=generator) for size in case.parameters]


@contextlib.contextmanager
def _exact_float32() -> Iterator[None]:
    """Disable TF32, which float32's tolerance would reject."""
    matmul, convolution = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, convolution.allow_tf32
    matmul.allow_tf32 = convolution.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, convolution.allow_tf32 = before


def _broken(
    case: Case, library: str | None, precision: Precision, error: Exception
) -> Iterator[SelfTestResult]:
    for area, length in case.reduction_lengths.items():
        yield _broken_result(area, library, precision, case.shape, length, error)


def _broken_result(
    area: SelfTestArea,
    library: str | None,
    precision: Precision,
    shape: str,
    length: int,
    error: Exception,
) -> SelfTestResult:
    return SelfTestResult(
        area=area,
        precision=precision,
        library=library,
        shape=shape,
        reduction_length=length,
        tolerance=allowed_error(precision, reduction_length=length),
        verdict="error",
        seconds=0.0,
        error=str(error)[:500],
    )
