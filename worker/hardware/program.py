"""Patches for a program that is not ours: what its torch is, which GPUs it sees, what follows."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from types import ModuleType
from typing import Literal

from pydantic import BaseModel, ValidationError

from redkiln.hardware import GpuFacts, PatchOutcome
from worker.hardware.discover import discover_gpus
from worker.hardware.kernel_cache import build_cache_key
from worker.hardware.override import ProbeResult, prove_override
from worker.hardware.patches import decide_all
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.gfx_override import find_candidate
from worker.hardware.patches.trials import load_trials

ASK_SECONDS = 300.0
"""A cold import of a ROCm build from a slow disk takes over a minute."""
ASK_TORCH = """
import json, torch
opened = torch.cuda.is_available()
print(json.dumps({
    "version": torch.__version__,
    "hip": torch.version.hip,
    "arch_list": torch.cuda.get_arch_list() if opened else [],
    "num_gpus": torch.cuda.device_count() if opened else 0,
}))
"""
"""Run by the program's own interpreter, which need not have anything of ours."""


class TorchFacts(BaseModel):
    """The torch of a program.

    Attributes:
        num_gpus: how many it opens in the program's environment.
        problem: why it could not be asked.
    """

    version: str | None = None
    hip: str | None = None
    arch_list: tuple[str, ...] = ()
    num_gpus: int = 0
    problem: str = ""


def find_interpreter(command: Sequence[str]) -> str:
    """The Python that a command is run by; ours where it is not called by name."""
    is_python = bool(command) and PurePath(command[0]).name.startswith("python")
    return command[0] if is_python else sys.executable


def ask_torch(interpreter: str, *, environ: Mapping[str, str]) -> TorchFacts:
    """What the torch of an interpreter is, from a child of it."""
    try:
        done = subprocess.run(
            [interpreter, "-c", ASK_TORCH],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ASK_SECONDS,
            check=True,
        )
        return TorchFacts.model_validate(json.loads(done.stdout.splitlines()[-1]))
    except subprocess.CalledProcessError as error:
        last = error.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return TorchFacts(problem=f"{interpreter} has no torch to ask: {' '.join(last)}")
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, ValidationError) as error:
        return TorchFacts(problem=f"the torch of {interpreter} could not be asked: {error}")


def decide_for_program(
    torch: TorchFacts,
    *,
    environ: Mapping[str, str],
    cache_dir: Path,
    probe_command: Sequence[str],
    gpus: Sequence[GpuFacts] | None = None,
) -> list[PatchOutcome]:
    """What becomes of each patch for a program.

    Args:
        torch: that of the program.
        environ: in which it will run, as the user set it.
        cache_dir: below which its kernels and what was proved are kept.
        probe_command: tries an override.
        gpus: by default all that the driver's files tell of.
    """
    facts = _gather(torch, environ=environ, cache_dir=cache_dir, gpus=gpus)
    probes: dict[str, ProbeResult] = {}
    for gpu in facts.gpus:
        candidate = find_candidate(gpu, facts)
        if candidate is not None and gpu.gfx is not None and gpu.gfx not in probes:
            probes[gpu.gfx] = prove_override(
                gpu.gfx,
                candidate,
                versions=(torch.version, torch.hip),
                command=probe_command,
                environment={**environ, **_show_alone(gpu)},
                cache_dir=cache_dir,
                now=datetime.now(UTC),
            )
    return decide_all(replace(facts, probes=probes))


def decide_for_torch(
    torch: ModuleType, *, environ: Mapping[str, str], gpus: Sequence[GpuFacts] | None = None
) -> list[PatchOutcome]:
    """What becomes of each patch in this very process; nothing is probed.

    On ROCm torch is not asked for its GPUs: that would start HIP, which reads its variables then.
    """
    version, hip = str(torch.__version__), torch.version.hip
    if hip is None:
        num_gpus = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
        asked = TorchFacts(version=version, num_gpus=num_gpus)
        return decide_all(_gather(asked, environ=environ, cache_dir=None, gpus=()))
    found = discover_gpus() if gpus is None else gpus
    asked = TorchFacts(version=version, hip=hip, num_gpus=len(found))
    return decide_all(_gather(asked, environ=environ, cache_dir=None, gpus=found))


def pick_visible(gpus: Sequence[GpuFacts], environ: Mapping[str, str]) -> list[GpuFacts]:
    """The GPUs that a program sees: masks are applied one after the other, as the runtime does.

    Source: ROCm documentation, "GPU isolation techniques": HIP's numbers are relative to ROCR's.
    """
    hip_mask = environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES")
    shown = list(gpus)
    for mask in (environ.get("ROCR_VISIBLE_DEVICES"), hip_mask):
        if mask:
            entries = [entry.strip() for entry in mask.split(",")]
            shown = [gpu for entry in entries for gpu in _find(entry, shown)]
    return shown


def probe_command_of(interpreter: str) -> list[str]:
    """The probe of an override, run by the program's own interpreter."""
    return [interpreter, "-m", "worker.hardware.selftest.probe"]


def _gather(
    torch: TorchFacts,
    *,
    environ: Mapping[str, str],
    cache_dir: Path | None,
    gpus: Sequence[GpuFacts] | None,
) -> PatchFacts:
    backend = _backend(torch)
    found: Sequence[GpuFacts] = ()
    if backend == "rocm":
        found = discover_gpus() if gpus is None else gpus
    usable = [gpu for gpu in found if gpu.is_accessible and gpu.gfx]
    shown = tuple(pick_visible(usable, environ))
    folder = None
    if cache_dir is not None:
        key = build_cache_key(
            arch="+".join(dict.fromkeys(gpu.gfx for gpu in shown if gpu.gfx)) or None,
            torch_version=torch.version,
            hip_version=torch.hip,
            slot=0,
        )
        folder = cache_dir / key
    return PatchFacts(
        backend=backend,
        gpus=shown,
        torch=torch.version,
        hip=torch.hip,
        arch_list=torch.arch_list,
        user=environ,
        cache_dir=folder,
        trials=load_trials(folder) if folder else {},
        has_tunings=bool(folder and any(folder.glob("tunableop*.csv"))),
    )


def _find(entry: str, gpus: Sequence[GpuFacts]) -> list[GpuFacts]:
    if entry.isdecimal():
        return list(gpus[int(entry) : int(entry) + 1])
    return [gpu for gpu in gpus if gpu.uuid and gpu.uuid.lower() == entry.lower()]


def _backend(torch: TorchFacts) -> Literal["rocm", "cuda", "cpu"]:
    if not torch.num_gpus:
        return "cpu"
    return "rocm" if torch.hip else "cuda"


def _show_alone(gpu: GpuFacts) -> dict[str, str]:
    """The variable that shows a probe this GPU; none where it has no name of its own."""
    return {"ROCR_VISIBLE_DEVICES": gpu.uuid} if gpu.uuid else {}
