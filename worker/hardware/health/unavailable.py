"""Why torch opens no GPU here and what to do: one answer from everything that the doctor checks.

torch reports only that no GPU is available. The doctor's rows that can explain it are checked in
the order of the layers: the build, the driver's nodes and their permissions, masks, libraries, the
runtime, and finally the kernels for the GPU's architecture.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.hardware.doctor import build, device_nodes, driver
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, bad, ok
from worker.hardware.masks import MASKS

NOTHING_SHOWN = frozenset({"", "-1", "none", "NoDevFiles"})
"""Values of a mask that hide all GPUs. Source: HIP's and CUDA's documentation of the masks."""


@dataclass(frozen=True)
class Unavailable:
    """Why a GPU is missing.

    Attributes:
        code: Machine-readable name; the id of the doctor's row if one explains it.
        evidence: Facts that show it.
        cause: Why torch therefore cannot use the GPU.
        fix: The exact thing to do.
    """

    code: str
    evidence: str
    cause: str
    fix: str

    def __str__(self) -> str:
        return f"{self.cause} ({self.evidence}). Fix: {self.fix}"


def explain_no_gpu(evidence: Evidence) -> Unavailable:
    """Return the first cause that explains why torch opens no GPU."""
    checks = {
        "torch_is_rocm": build.check_is_rocm,
        "wsl": device_nodes.check_wsl,
        "kfd": device_nodes.check_kfd,
        "permission": device_nodes.check_permission,
        "render_nodes": device_nodes.check_render_nodes,
        "masked": check_masks,
        "no_amdsmi": build.check_amdsmi,
        "runtime": driver.check_runtime,
        "arch_not_in_build": build.check_arch,
    }
    if not evidence.has_amd_gpu:
        checks = {"masked": check_masks, "no_gpu": _check_other_makes}
    for code, check in checks.items():
        found = check(evidence)
        if found.verdict == "bad" and found.severity == "blocks":
            return Unavailable(code, found.evidence, found.cause, found.fix)
    return _unexplained(evidence)


def check_masks(evidence: Evidence) -> Finding:
    """Check whether a variable hides every GPU from this process."""
    hiding = find_masks(evidence.environment)
    if not hiding:
        return ok("no variable hides all GPUs")
    listed = ", ".join(f"{name}={value!r}" for name, value in hiding.items())
    return bad(
        "blocks",
        evidence=f"{listed} in the environment",
        cause="the variable hides all GPUs from this process",
        fix=f"unset {' '.join(hiding)}",
    )


def find_masks(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hide all GPUs."""
    return {
        name: environment[name]
        for name in MASKS
        if name in environment and environment[name].strip() in NOTHING_SHOWN
    }


def _check_other_makes(evidence: Evidence) -> Finding:
    torch = evidence.torch
    if torch is None or torch.version is None:
        return bad(
            "blocks",
            evidence=(torch and torch.error) or "torch was not checked",
            cause="torch cannot be imported",
            fix="install the worker's dependencies: `make clean up` in the checkout",
        )
    if torch.cuda:
        return bad(
            "blocks",
            evidence=f"torch {torch.version} is built for CUDA {torch.cuda}; no AMD GPU is here",
            cause="CUDA's driver shows no GPU",
            fix="run nvidia-smi, which shows the reason; for docker run: --gpus all",
        )
    kind = f"for ROCm {torch.rocm_release}" if torch.hip else "for CPUs only"
    return bad(
        "blocks",
        evidence=f"torch {torch.version} is built {kind}; neither the bus nor a driver shows a GPU",
        cause="this machine, or this container, has no GPU",
        fix="run the job on a worker with a GPU, or set `resources: {device: any}`",
    )


def _unexplained(evidence: Evidence) -> Unavailable:
    said = (evidence.torch and evidence.torch.error) or "no further message"
    return Unavailable(
        "unexplained",
        f"torch: {said}",
        "nodes, permissions, build and kernels look right, but torch still opens no GPU",
        "run redkiln doctor, which shows every check, and sudo dmesg | grep -iE 'kfd|amdgpu'",
    )
