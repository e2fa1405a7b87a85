"""Patches for a program that is not Redkiln's: its torch, the GPUs it sees, and the decisions."""

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

from redkiln.views.hardware import GpuFacts, PatchOutcome
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.kernel_cache import build_cache_key
from worker.hardware.masks import list_offered, pick_visible, show_alone
from worker.hardware.override import ProbeResult, prove_override
from worker.hardware.patches import decide_all
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.gfx_override import find_candidate
from worker.hardware.patches.trials import load_trials
from worker.hardware.rocm_version import read_rocm_version

ASK_SECONDS = 300.0
"""A cold import of a ROCm build from a slow disk takes over a minute."""
ASK_TORCH = """
import json, torch
opened = torch.cuda.is_available()
print(json.dumps({
    "version": torch.__version__,
    "rocm": getattr(torch.version, "rocm", None) or torch.version.hip,
    "arch_list": torch.cuda.get_arch_list() if opened else [],
    "num_gpus": torch.cuda.device_count() if opened else 0,
}))
"""
"""Run by the program's own interpreter, which need not have Redkiln installed."""


class TorchFacts(BaseModel):
    """The torch of a program.

    Attributes:
        num_gpus: Number of GPUs that it opens in the program's environment.
        problem: Why these facts are unknown.
    """

    version: str | None = None
    rocm: str | None = None
    arch_list: tuple[str, ...] = ()
    num_gpus: int = 0
    problem: str = ""


def find_interpreter(command: Sequence[str]) -> str:
    """Return the Python that runs a command; this one if the command does not name it."""
    is_python = bool(command) and PurePath(command[0]).name.startswith("python")
    return command[0] if is_python else sys.executable


def ask_torch(interpreter: str, *, environ: Mapping[str, str]) -> TorchFacts:
    """Ask an interpreter's torch for its facts, in a child."""
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
        return TorchFacts(problem=f"{interpreter} cannot import torch: {' '.join(last)}")
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError, ValidationError) as error:
        return TorchFacts(problem=f"the torch of {interpreter} could not be queried: {error}")


def decide_for_program(
    torch: TorchFacts,
    *,
    environ: Mapping[str, str],
    cache_dir: Path,
    probe_command: Sequence[str],
    gpus: Sequence[GpuFacts] | None = None,
) -> list[PatchOutcome]:
    """Decide every patch for a program.

    Args:
        torch: Facts about the program's torch.
        environ: Environment in which it will run, as the user set it.
        cache_dir: Parent folder of its kernels and of the verdicts on overrides.
        probe_command: Command that probes an override.
        gpus: GPUs to consider; by default all that the driver's files list.
    """
    offered = list_offered(_find_gpus(torch, gpus))
    facts = _gather(torch, environ=environ, cache_dir=cache_dir, gpus=offered)
    probes: dict[str, ProbeResult] = {}
    for gpu in facts.gpus:
        candidate = find_candidate(gpu, facts)
        if candidate is not None and gpu.gfx is not None and gpu.gfx not in probes:
            probes[gpu.gfx] = prove_override(
                gpu.gfx,
                candidate,
                versions=(torch.version, torch.rocm),
                command=probe_command,
                environment=show_alone(gpu, environ, offered=offered),
                cache_dir=cache_dir,
                now=datetime.now(UTC),
            )
    return decide_all(replace(facts, probes=probes))


def decide_for_torch(
    torch: ModuleType, *, environ: Mapping[str, str], gpus: Sequence[GpuFacts] | None = None
) -> list[PatchOutcome]:
    """Decide every patch for this process; nothing is probed.

    On ROCm torch is not asked for its GPUs, because that would start HIP, which then reads its
    variables.
    """
    version, rocm = str(torch.__version__), read_rocm_version(torch.version)
    if rocm is None:
        num_gpus = int(torch.cuda.device_count()) if torch.cuda.is_available() else 0
        asked = TorchFacts(version=version, num_gpus=num_gpus)
        return decide_all(_gather(asked, environ=environ, cache_dir=None, gpus=()))
    found = list_offered(discover_gpus() if gpus is None else gpus)
    asked = TorchFacts(version=version, rocm=rocm, num_gpus=len(found))
    return decide_all(_gather(asked, environ=environ, cache_dir=None, gpus=found))


def probe_command_of(interpreter: str) -> list[str]:
    """Return the command that probes an override with the program's own interpreter."""
    return [interpreter, "-m", "worker.hardware.selftest.probe"]


def _find_gpus(torch: TorchFacts, gpus: Sequence[GpuFacts] | None) -> Sequence[GpuFacts]:
    if _backend(torch) != "rocm":
        return ()
    return discover_gpus() if gpus is None else gpus


def _gather(
    torch: TorchFacts,
    *,
    environ: Mapping[str, str],
    cache_dir: Path | None,
    gpus: Sequence[GpuFacts],
) -> PatchFacts:
    shown = tuple(gpu for gpu in pick_visible(gpus, environ) if gpu.gfx)
    folder = None
    if cache_dir is not None:
        key = build_cache_key(
            arch="+".join(dict.fromkeys(gpu.gfx for gpu in shown if gpu.gfx)) or None,
            torch_version=torch.version,
            rocm_version=torch.rocm,
            slot=0,
        )
        folder = cache_dir / key
    return PatchFacts(
        backend=_backend(torch),
        gpus=shown,
        torch=torch.version,
        rocm=torch.rocm,
        arch_list=torch.arch_list,
        user=environ,
        cache_dir=folder,
        trials=load_trials(folder) if folder else {},
        has_tunings=bool(folder and any(folder.glob("tunableop*.csv"))),
    )


def _backend(torch: TorchFacts) -> Literal["rocm", "cuda", "cpu"]:
    if not torch.num_gpus:
        return "cpu"
    return "rocm" if torch.rocm else "cuda"
