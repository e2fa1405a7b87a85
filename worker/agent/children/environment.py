"""The environment of a child: what it needs, one GPU or none, and no credentials of the agent."""

import hashlib
import json
from collections.abc import Mapping

from worker.hardware.masks import MASKS

NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
        "VIRTUAL_ENV", "GLIBC_TUNABLES", "CC", "CXX", "BEAM", "PARALLEL", "DRI_PRIME",
    }
)  # fmt: skip
PREFIXES = (
    "LC_", "LD_", "PYTHON", "XDG_", "MPL", "SSL_CERT_",
    "HSA_", "HIP_", "ROCR_", "ROCM_", "ROCBLAS_", "HIPBLASLT_", "MIOPEN_", "RCCL_", "AMD_",
    "AMDGCN_", "GPU_", "CUDA_", "NVIDIA_", "NCCL_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_",
    "TRITON_", "DISABLE_ADDMM_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "MALLOC_", "ORT_",
    "MESA_", "VK_", "RADV_", "RUSTICL_", "OCL_", "POCL_", "REDKILN_TRAINER_", "FADE_",
)  # fmt: skip
HUB_NAMES = frozenset({"HF_HOME", "HF_TOKEN", "HF_ENDPOINT"})
HUB_PREFIX = "HF_HUB_"
TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"


def build_child_environment(
    own: Mapping[str, str], *, device: Mapping[str, str], threads: int
) -> dict[str, str]:
    """Build a child's environment: from the agent's, only names known to hold no secret.

    Args:
        own: The agent's environment.
        device: Variables that show it one GPU or none (`show_one_gpu`, `masks.HIDE_GPUS`).
        threads: Number of CPU threads for its libraries.
    """
    kept = {
        name: value
        for name, value in own.items()
        if (name in NAMES or name.startswith(PREFIXES)) and name not in MASKS
    }
    return {**kept, **device, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}


def show_hugging_face(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with which a trainer finds and downloads pretrained models.

    `HF_TOKEN` is the only credential that a child receives: the user gave it to this worker for
    these downloads, and the trainer makes them. The exporter and the hardware probes download
    nothing and do not get it.
    """
    return {
        name: value
        for name, value in own.items()
        if name in HUB_NAMES or name.startswith(HUB_PREFIX)
    }


def use_huge_pages(own: Mapping[str, str]) -> dict[str, str]:
    """Return the variable that keeps a CPU process's tensors in transparent huge pages.

    glibc reads it when a process starts and asks the kernel for huge pages; most systems give them
    only to processes that ask. A step then looks up 512 times fewer pages. A bare amdnet step,
    batch 64, took 16.3 to 17.5 ms instead of 21.0 to 21.3 ms, and a job's step 19.0 ms instead of
    20.7 ms; a waiting trainer is not larger (2 cores of an EPYC 9004 in a virtual machine, torch
    2.13, November 2026).

    Args:
        own: The agent's environment. If it sets huge pages already, that value is kept.

    Source: sourceware.org/glibc/manual, "Memory Allocation Tunables" (glibc 2.35 on).
    """
    present = own.get(TUNABLES, "")
    if HUGE_PAGES in present:
        return {TUNABLES: present}
    return {TUNABLES: ":".join(filter(None, [present, f"{HUGE_PAGES}=1"]))}


def show_every_gpu(own: Mapping[str, str]) -> dict[str, str]:
    """Return the GPU masks that the agent itself runs under, unchanged."""
    return {name: own[name] for name in MASKS if name in own}


def show_one_gpu(index: int, own: Mapping[str, str], *, is_hip: bool) -> dict[str, str]:
    """Return the variable that shows a child the GPU with torch's index `index` in `own`.

    The runtime applies the masks that the agent runs under in sequence (HIP's indices are
    relative to ROCR's set), so they are combined into one mask.
    """
    if not is_hip:
        return {"CUDA_VISIBLE_DEVICES": _pick(own.get("CUDA_VISIBLE_DEVICES"), str(index))}
    by_hip = _pick(own.get("HIP_VISIBLE_DEVICES") or own.get("CUDA_VISIBLE_DEVICES"), str(index))
    return {"ROCR_VISIBLE_DEVICES": _pick(own.get("ROCR_VISIBLE_DEVICES"), by_hip)}


def digest_environment(environment: Mapping[str, str]) -> str:
    """Return a warm spare's key: a job that needs another environment cannot use the spare."""
    return hashlib.sha256(json.dumps(sorted(environment.items())).encode()).hexdigest()


def _pick(mask: str | None, index: str) -> str:
    entries = [entry.strip() for entry in mask.split(",")] if mask else []
    if not entries or not index.isdecimal():
        return index
    return entries[int(index)] if int(index) < len(entries) else index
