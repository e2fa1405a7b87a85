"""What patches decide from: facts about GPUs, torch, the user's environment, and measurements."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from redkiln.views.hardware import GpuFacts
from redkiln.views.self_test import SelfTestReport
from worker.hardware.facts.targets import Target, find_target
from worker.hardware.facts.versions import parse_version
from worker.hardware.health.verdicts import SelfTestVerdict, judge_report
from worker.hardware.override import ProbeResult
from worker.hardware.patches.trials import Trial

FIRST_THEROCK = (7, 9)
"""The first ROCm whose wheels are built for each architecture; 7.2 is the last with classic wheels.

Source: release notes of ROCm 7.9.0 (technology preview) and 7.2.4; ROCm/TheRock RELEASES.md.
"""


@dataclass(frozen=True)
class PatchFacts:
    """Everything that a patch may use.

    Attributes:
        backend: Backend of torch; `cpu` if it has no GPU to use.
        gpus: The job's GPUs, in the order in which it sees them.
        torch: Version of torch; None if unknown.
        rocm: ROCm release that torch was built with; not HIP's version.
        arch_list: Targets that torch has kernels for; empty if unknown.
        user: The environment as the user set it.
        cache_dir: Folder of kernels compiled or tuned for these GPUs and versions.
        probes: Verdicts on overrides, by the GPU's own target.
        segment_probes: Verdicts on expandable segments, by the GPU's key.
        trials: Measurements with and without a patch, by the patch's name.
        self_tests: Self-test reports for these GPUs and versions.
        has_fixed_shapes: Whether inputs keep one shape; None if unknown.
        has_tunings: Whether TunableOp has written results into the folder.
    """

    backend: Literal["rocm", "cuda", "cpu"]
    gpus: tuple[GpuFacts, ...] = ()
    torch: str | None = None
    rocm: str | None = None
    arch_list: tuple[str, ...] = ()
    user: Mapping[str, str] = field(default_factory=dict)
    cache_dir: Path | None = None
    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    segment_probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    trials: Mapping[str, Trial] = field(default_factory=dict)
    self_tests: tuple[SelfTestReport, ...] = ()
    has_fixed_shapes: bool | None = None
    has_tunings: bool = False

    @property
    def gfx_names(self) -> tuple[str, ...]:
        """Distinct targets of the GPUs, as far as known."""
        return tuple(dict.fromkeys(gpu.gfx for gpu in self.gpus if gpu.gfx))

    @property
    def targets(self) -> tuple[Target, ...]:
        """Rows of these targets in the table; targets that are not in it are omitted."""
        rows = (find_target(gfx) for gfx in self.gfx_names)
        return tuple(row for row in rows if row is not None)

    @property
    def is_therock(self) -> bool:
        """Whether ROCm was installed as wheels that are built for single architectures."""
        return self.rocm is not None and parse_version(self.rocm) >= FIRST_THEROCK

    @property
    def versions(self) -> dict[str, str | None]:
        """Versions that an outcome depends on, to be stored with it."""
        return {"torch": self.torch, "rocm": self.rocm}

    @property
    def verdicts(self) -> tuple[SelfTestVerdict, ...]:
        """Verdicts on the self-test reports."""
        return tuple(judge_report(report) for report in self.self_tests)
