"""The self-test of one device: every case in every precision, with every selectable library.

Numbers are drawn on the CPU from a fixed seed, rounded to the tested type, and computed twice.
"""

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestArea, SelfTestReport, SelfTestResult
from worker.hardware.health.verdicts import (
    LT_LIBRARIES,
    WITHOUT_MIOPEN,
    avoids_hipblaslt,
    is_refused_by_miopen,
)
from worker.hardware.selftest.cases import Case, Results, build_cases
from worker.hardware.selftest.compare import Difference, compare
from worker.hardware.selftest.operations import (
    LARGE_BYTES,
    NEEDED_RATIO,
    build_operations,
    count_large,
)
from worker.hardware.selftest.sgd import BATCH, DTYPES, SIDE, STEPS, train
from worker.hardware.selftest.tolerance import allowed_error

SEED = 20
SGD_LAYERS = 9
"""Layers of the small network: consecutive roundings up to a loss; times STEPS, up to weights."""
BLAS_NAMES = {True: ("rocblas", "hipblaslt"), False: ("cublas", "cublaslt")}
BLAS_CHOICES = ("cublas", "cublaslt")
"""Torch's names for its two libraries, on ROCm too."""
ATTENTION_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
NOT_OFFERED = ("No available kernel", "No viable backend")
"""Torch's messages if fused attention does not exist for this device, type or shape."""

EXACT = 1e-12
"""Tolerance of whole numbers, which have no rounding errors."""

Say = Callable[[str], None]


def run_self_test(
    blank: SelfTestReport, *, precisions: Sequence[Precision], say: Say
) -> SelfTestReport:
    """Test a device that torch can open.

    Args:
        blank: Report that names the device and whether the test is quick; may be the CPU.
        precisions: Types to test.
        say: Receives the name of each test before it runs, so that a crash shows which one it was.

    Returns:
        The completed report.

    Raises:
        torch.OutOfMemoryError: Another program uses the device's memory.
    """
    began = time.perf_counter()
    results: list[SelfTestResult] = []
    try:
        for result in _run_all(blank, precisions, say):
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
    blank: SelfTestReport, precisions: Sequence[Precision], say: Say
) -> Iterator[SelfTestResult]:
    device = torch.device(blank.device)
    has_lt = not avoids_hipblaslt(blank.settings)
    with _exact_float32():
        for precision in precisions:
            for case in _list_cases(precision, is_quick=blank.is_quick):
                inputs = draw_inputs(case, precision)
                want = case.compute([t.double() for t in inputs])
                for library in list_libraries(case, device, has_lt=has_lt):
                    say(f"{precision} {' '.join(want)} {library or ''} {case.shape}")
                    run = partial(compute_case, case, library, device, precision, inputs, want)
                    yield from _again_without_miopen(run)
            say(f"{precision} sgd")
            yield from _again_without_miopen(partial(_run_sgd, device, precision))
        if device.type == "cuda" and not blank.is_quick:
            say("reduction of 2 GiB")
            yield from count_large_elements(device)


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


def count_large_elements(
    device: torch.device, *, size: int = LARGE_BYTES
) -> Iterator[SelfTestResult]:
    """Test a sum over more bytes than 32-bit offsets reach, if there is memory for it."""
    if device.type == "cuda" and torch.cuda.mem_get_info(device)[0] < NEEDED_RATIO * size:
        return
    began = time.perf_counter()
    found, right = count_large(device, size=size)
    error = abs(found - right) / right
    yield SelfTestResult(
        area="reduction",
        precision="fp32",
        shape=f"sum of {size} bytes",
        reduction_length=size,
        max_abs_error=float(abs(found - right)),
        max_rel_error=error,
        tolerance=EXACT,
        verdict="passed" if found == right else "failed",
        seconds=time.perf_counter() - began,
    )


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
        with _choose(case, library):
            got = case.compute([t.clone().to(device) for t in inputs])
            found = {area: compare(got[area], want[area]) for area in want}
    except torch.OutOfMemoryError:
        raise  # it says nothing about the numbers
    except RuntimeError as error:
        if not any(words in str(error) for words in NOT_OFFERED):
            yield from _broken(case, library, precision, error)
        if isinstance(error, torch.AcceleratorError):
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
        if isinstance(error, torch.AcceleratorError):
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


def list_libraries(case: Case, device: torch.device, *, has_lt: bool) -> list[str | None]:
    """List the libraries that can compute a case, except one that every process here avoids."""
    if case.chosen_by == "attention":
        return list(ATTENTION_BACKENDS)
    if case.chosen_by == "blas" and device.type == "cuda":
        names = BLAS_NAMES[torch.version.hip is not None]
        choices = [name for name, choice in zip(names, BLAS_CHOICES, strict=True) if _takes(choice)]
        return [name for name in choices if has_lt or name not in LT_LIBRARIES] or [None]
    return [None]


def _takes(choice: str) -> bool:
    """Return whether torch keeps a choice of BLAS; it falls back if the GPU is not supported."""
    try:
        with _blas(choice):
            kept = str(torch.backends.cuda.preferred_blas_library())
    except RuntimeError:
        return False  # this build does not contain the library
    return kept.rpartition(".")[2].lower() == choice


@contextlib.contextmanager
def _choose(case: Case, library: str | None) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        if case.chosen_by == "attention" and library is not None:
            stack.enter_context(sdpa_kernel(ATTENTION_BACKENDS[library]))
        elif library is not None:
            names = BLAS_NAMES[torch.version.hip is not None]
            stack.enter_context(_blas(BLAS_CHOICES[names.index(library)]))
        yield


@contextlib.contextmanager
def _blas(choice: str) -> Iterator[None]:
    before = torch.backends.cuda.preferred_blas_library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fallback is detected by asking, not by warnings
        torch.backends.cuda.preferred_blas_library(choice)
        try:
            yield
        finally:
            torch.backends.cuda.preferred_blas_library(before)


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
