"""Stores self-test reports; a GPU is tested again when anything that affects it changes."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import ValidationError

from redkiln.views.hardware import Precision
from redkiln.views.self_test import SelfTestReport
from worker.hardware.facts.targets import find_target

FORMAT = 4
"""Increased when the test itself changes, so that older results are ignored."""
SETTINGS_PREFIXES = (
    "HSA_OVERRIDE_GFX_VERSION",
    "TORCH_BLAS_PREFER_",
    "DISABLE_ADDMM_CUDA_LT",
    "ROCBLAS_",
    "HIPBLASLT_",
    "MIOPEN_DEBUG_",
    "MIOPEN_FIND_",
    "PYTORCH_TUNABLEOP_ENABLED",
    "PYTORCH_MIOPEN_",
    "TORCH_ROCM_AOTRITON_",
    "GPU_ENABLE_",
    "HSA_ENABLE_SDMA",
)
"""Variables that decide which kernels run; other variables do not change any number."""


@dataclass(frozen=True)
class SelfTestKey:
    """Everything that a result depends on.

    Attributes:
        gfx: Target as torch reports it; an override changes it.
        gpu: Unique id or PCI address, because single cards of a kind can be defective.
        settings: See `select_settings`.
        is_quick: Whether the test was quick; a quick result does not replace a full test.
    """

    gfx: str | None
    gpu: str | None
    torch: str | None
    rocm: str | None
    driver: str | None
    settings: Mapping[str, str] = field(default_factory=dict)
    is_quick: bool = False

    @property
    def digest(self) -> str:
        """Digest for file names."""
        text = json.dumps({**asdict(self), "format": FORMAT}, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


class CachedReports:
    """A folder of reports, with one file for each key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, key: SelfTestKey) -> SelfTestReport | None:
        """Find the report for a key, or None if it cannot be read."""
        try:
            return SelfTestReport.model_validate_json(self._path(key).read_bytes())
        except (OSError, ValidationError):
            return None

    def load_all(self) -> list[SelfTestReport]:
        """Load every readable report, ordered by time."""
        found = []
        for path in sorted(self._folder.glob("selftest-*.json")):
            try:
                found.append(SelfTestReport.model_validate_json(path.read_bytes()))
            except (OSError, ValidationError):
                continue
        return sorted(found, key=lambda report: report.at)

    def save(self, key: SelfTestKey, report: SelfTestReport) -> None:
        """Store a report atomically.

        Raises:
            OSError: The folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(key)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(report.model_dump_json(indent=1))
        partial.replace(path)

    def drop(self, key: SelfTestKey) -> None:
        """Delete a report, so that the GPU is tested again."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: SelfTestKey) -> Path:
        return self._folder / f"selftest-{key.digest}.json"


def key_of_report(report: SelfTestReport) -> SelfTestKey:
    """Return the key under which a report is stored."""
    versions = report.versions
    return SelfTestKey(
        gfx=report.gfx,
        gpu=report.pci_address,
        torch=versions.get("torch"),
        rocm=versions.get("rocm"),
        driver=versions.get("driver"),
        settings=report.settings,
        is_quick=report.is_quick,
    )


def select_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that decide which kernels run."""
    return {name: value for name, value in environ.items() if name.startswith(SETTINGS_PREFIXES)}


def choose_precisions(kind: str, *, gfx: str | None) -> tuple[Precision, ...]:
    """Choose the types in which a device is tested and trained.

    Args:
        kind: Torch's device type.
        gfx: The device's target. For an unknown target only fp32 is known to be right. bf16 is
            never tried if the table excludes it, because the compiler would abort the process.
    """
    if kind == "cpu":
        return ("fp32",)
    if gfx is not None and gfx.startswith("sm_"):
        return (
            ("fp32", "fp16", "bf16") if int(gfx[3:]) >= FIRST_BF16_CAPABILITY else ("fp32", "fp16")
        )
    target = find_target(gfx) if gfx else None
    if target is None:
        return ("fp32",)
    found: list[Precision] = ["fp32"]
    found += ["fp16"] if target.has_fp16 else []
    found += ["bf16"] if target.has_bf16 else []
    return tuple(found)


FIRST_BF16_CAPABILITY = 80
"""NVIDIA's Ampere. Source: CUDA C++ Programming Guide, table of features by compute capability."""
