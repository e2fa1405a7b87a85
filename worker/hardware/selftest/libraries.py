"""The libraries that torch can be asked for: BLAS, and the kernels of attention."""

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from worker.hardware.health.verdicts import LT_LIBRARIES
from worker.hardware.selftest.cases import Case

BLAS_NAMES = {True: ("rocblas", "hipblaslt"), False: ("cublas", "cublaslt")}
BLAS_CHOICES = ("cublas", "cublaslt")
"""Torch's names for its two libraries, on ROCm too."""
ATTENTION_BACKENDS = {
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


def list_libraries(case: Case, device: torch.device, *, has_lt: bool) -> list[str | None]:
    """List the libraries that can compute a case, except one that every process here avoids."""
    if case.chosen_by == "attention":
        return list(ATTENTION_BACKENDS)
    if case.chosen_by == "blas":
        return list_blas(device, has_lt=has_lt)
    return [None]


def list_blas(device: torch.device, *, has_lt: bool) -> list[str | None]:
    """List the BLAS libraries that this build of torch has for a device."""
    if device.type != "cuda":
        return [None]
    names = BLAS_NAMES[torch.version.hip is not None]
    choices = [name for name, choice in zip(names, BLAS_CHOICES, strict=True) if _takes(choice)]
    return [name for name in choices if has_lt or name not in LT_LIBRARIES] or [None]


def _takes(choice: str) -> bool:
    """Return whether torch keeps a choice of BLAS; it falls back if the GPU is not supported."""
    try:
        with _prefer(choice):
            kept = str(torch.backends.cuda.preferred_blas_library())
    except RuntimeError:
        return False  # this build does not contain the library
    return kept.rpartition(".")[2].lower() == choice


@contextlib.contextmanager
def use_library(library: str | None) -> Iterator[None]:
    """Make torch use a library that was listed for the block; None keeps torch's own choice."""
    if library is None:
        yield
        return
    if library in ATTENTION_BACKENDS:
        with sdpa_kernel(ATTENTION_BACKENDS[library]):
            yield
        return
    names = BLAS_NAMES[torch.version.hip is not None]
    with _prefer(BLAS_CHOICES[names.index(library)]):
        yield


@contextlib.contextmanager
def _prefer(choice: str) -> Iterator[None]:
    before = torch.backends.cuda.preferred_blas_library()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fallback is detected by asking, not by warnings
        torch.backends.cuda.preferred_blas_library(choice)
        try:
            yield
        finally:
            torch.backends.cuda.preferred_blas_library(before)
