"""What decides about patches: facts of GPUs, torch, the user's environment, and measurements."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from redkiln.hardware import GpuFacts, SelfTestReport
from worker.hardware.override import ProbeResult
from worker.hardware.patches.trials import Trial
from worker.hardware.targets import Target, find_target
from worker.hardware.verdicts import Verdict, judge_report

FIRST_THEROCK = (7, 9)
"""The first ROCm that is built as wheels for each architecture; 7.2 is the last of the old kind.

Source: release notes of ROCm 7.9.0 (technology preview) and 7.2.4; ROCm/TheRock RELEASES.md.
"""


@dataclass(frozen=True)
class PatchFacts:
    """All that a patch may ask.

    Attributes:
        backend: what torch was built for, or `cpu` where it has no GPU to use.
        gpus: those of the job, in the order in which it sees them.
        torch: its version; None when it was not asked.
        hip: ROCm's version, as torch was built with it.
        arch_list: targets that torch has kernels for; empty when it could not tell.
        user: the environment as the user set it.
        cache_dir: folder of the kernels that are compiled or tuned for these GPUs and versions.
        probes: what a child found out about an override, by the GPU's own target.
        trials: measurements of patches against their absence, by the patch's name.
        self_tests: reports on these GPUs under these versions.
        has_fixed_shapes: whether inputs keep one shape; None for a program that is not known.
        has_tunings: whether TunableOp has written results into the folder.
    """

    backend: Literal["rocm", "cuda", "cpu"]
    gpus: tuple[GpuFacts, ...] = ()
    torch: str | None = None
    hip: str | None = None
    arch_list: tuple[str, ...] = ()
    user: Mapping[str, str] = field(default_factory=dict)
    cache_dir: Path | None = None
    probes: Mapping[str, ProbeResult] = field(default_factory=dict)
    trials: Mapping[str, Trial] = field(default_factory=dict)
    self_tests: tuple[SelfTestReport, ...] = ()
    has_fixed_shapes: bool | None = None
    has_tunings: bool = False

    @property
    def gfx_names(self) -> tuple[str, ...]:
        """Distinct targets of the GPUs, as far as they are known."""
        return tuple(dict.fromkeys(gpu.gfx for gpu in self.gpus if gpu.gfx))

    @property
    def targets(self) -> tuple[Target, ...]:
        """Their rows in the table; one that is not in it is left out."""
        rows = (find_target(gfx) for gfx in self.gfx_names)
        return tuple(row for row in rows if row is not None)

    @property
    def is_therock(self) -> bool:
        """Whether ROCm came as wheels of its own, each for some architectures."""
        return self.hip is not None and parse_version(self.hip) >= FIRST_THEROCK

    @property
    def versions(self) -> dict[str, str | None]:
        """What an outcome depends on, for whoever reads it later."""
        return {"torch": self.torch, "rocm": self.hip}

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What follows from the self-tests."""
        return tuple(judge_report(report) for report in self.self_tests)


def parse_version(text: str) -> tuple[int, int]:
    """Major and minor number: `7.2.26015-fc0010cf6a` is (7, 2); (0, 0) when it is none."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
