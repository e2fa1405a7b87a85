"""The patches of a slot's trainers: gather facts, probe overrides once, decide."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import structlog

from redkiln.views.hardware import PatchOutcome
from redkiln.views.self_test import SelfTestReport
from worker.agent.children.environment import build_child_environment
from worker.agent.gpus.host_gpus import HostGpu, show_gpus
from worker.agent.inventory import Inventory, is_hip
from worker.hardware.health.selftest_cache import CachedReports
from worker.hardware.override import ProbeResult, prove_override
from worker.hardware.patches import decide_all
from worker.hardware.patches.allocator import may_expand
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.gfx_override import find_candidate
from worker.hardware.patches.trials import load_trials
from worker.hardware.segments import COMMAND, prove_segments
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)


class Patching:
    """Decides the patches of each job when it starts: new self-tests and trials may exist.

    Args:
        inventory: Torch's version and devices.
        segments_command: Command that tries expandable segments on the card that it sees.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        inventory: Inventory,
        *,
        segments_command: Sequence[str] = COMMAND,
    ) -> None:
        self._settings = settings
        self._inventory = inventory
        self._segments_command = segments_command
        self._segment_probes: dict[str, ProbeResult] = {}
        self._probes: dict[tuple[str, str], ProbeResult] = {}

    def decide(
        self,
        gpus: Sequence[HostGpu],
        *,
        cache_dir: Path,
        has_fixed_shapes: bool | None = True,
    ) -> list[PatchOutcome]:
        """Decide what each patch does for a job on these GPUs; no GPUs means a job on the CPU.

        Args:
            gpus: The job's GPUs, in the order in which it sees them.
            cache_dir: The job's folder of compiled and tuned kernels.
            has_fixed_shapes: Whether the job's inputs keep one shape; None if unknown.
        """
        facts = replace(self._gather(gpus, cache_dir), has_fixed_shapes=has_fixed_shapes)
        facts = replace(facts, probes=self._prove(gpus, facts))
        if may_expand(facts):
            facts = replace(facts, segment_probes=self._prove_segments(gpus))
        return decide_all(facts)

    def _gather(self, gpus: Sequence[HostGpu], cache_dir: Path) -> PatchFacts:
        return PatchFacts(
            backend=self._backend(gpus),
            gpus=tuple(gpu.facts for gpu in gpus),
            torch=self._inventory.torch_version,
            rocm=self._inventory.rocm_version,
            arch_list=tuple(self._inventory.arch_list),
            user=os.environ,
            cache_dir=cache_dir,
            trials=load_trials(cache_dir),
            self_tests=tuple(self._find_reports(gpus)),
            has_tunings=any(cache_dir.glob("tunableop*.csv")),
        )

    def _backend(self, gpus: Sequence[HostGpu]) -> Literal["rocm", "cuda", "cpu"]:
        if not gpus:
            return "cpu"
        return "rocm" if is_hip(self._inventory) else "cuda"

    def _find_reports(self, gpus: Sequence[HostGpu]) -> list[SelfTestReport]:
        """Return all self-test reports of these GPUs with these versions.

        Reports under any variables count: a fault stays known even after a patch has hidden it.
        """
        addresses = {gpu.facts.pci_address for gpu in gpus} - {None}
        versions = (self._inventory.torch_version, self._inventory.rocm_version)
        return [
            report
            for report in CachedReports(self._settings.selftest_dir).load_all()
            if report.pci_address in addresses
            and (report.versions.get("torch"), report.versions.get("rocm")) == versions
        ]

    def _prove_segments(self, gpus: Sequence[HostGpu]) -> dict[str, ProbeResult]:
        for gpu in gpus:
            if gpu.key in self._segment_probes or gpu.facts.gfx is None:
                continue
            log.info("trying expandable segments in a child", gpu=gpu.key)
            self._segment_probes[gpu.key] = prove_segments(
                gpu.key,
                gpu.facts.gfx,
                versions=(self._inventory.torch_version, self._inventory.rocm_version),
                environment=build_child_environment(os.environ, device=show_gpus([gpu]), threads=1),
                cache_dir=self._settings.selftest_dir,
                now=datetime.now(UTC),
                command=self._segments_command,
            )
        return self._segment_probes

    def _prove(self, gpus: Sequence[HostGpu], facts: PatchFacts) -> dict[str, ProbeResult]:
        proofs = {}
        for gpu in gpus:
            candidate = find_candidate(gpu.facts, facts)
            if candidate is None:
                continue
            assert gpu.facts.gfx is not None, "only a known target has an override to try"
            proofs[gpu.facts.gfx] = self._prove_one(gpu, gpu.facts.gfx, candidate)
        return proofs

    def _prove_one(self, gpu: HostGpu, gfx: str, candidate: Mapping[str, str]) -> ProbeResult:
        key = (gpu.key, gfx)
        if key not in self._probes:
            log.info("trying an override in a child", gpu=gpu.key, gfx=gfx, **candidate)
            self._probes[key] = prove_override(
                gfx,
                candidate,
                versions=(self._inventory.torch_version, self._inventory.rocm_version),
                command=self._settings.override_probe_command,
                environment=build_child_environment(os.environ, device=show_gpus([gpu]), threads=1),
                cache_dir=self._settings.selftest_dir,
                now=datetime.now(UTC),
            )
            log.info("override tried", gpu=gpu.key, **self._probes[key].model_dump())
        return self._probes[key]
