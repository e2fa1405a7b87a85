"""The environment of a child: what it needs, one GPU or none, and none of our credentials."""

import hashlib
import json
from collections.abc import Mapping

from worker.hardware.masks import MASKS

NAMES = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
        "VIRTUAL_ENV", "GLIBC_TUNABLES",
    }
)  # fmt: skip
PREFIXES = (
    "LC_", "LD_", "PYTHON", "XDG_", "MPL", "SSL_CERT_",
    "HSA_", "HIP_", "ROCR_", "ROCM_", "ROCBLAS_", "HIPBLASLT_", "MIOPEN_", "RCCL_", "AMD_", "GPU_",
    "CUDA_", "NVIDIA_", "NCCL_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "TRITON_",
    "DISABLE_ADDMM_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "MALLOC_", "ORT_",
    "REDKILN_TRAINER_",
)  # fmt: skip
HUB_NAMES = frozenset({"HF_HOME", "HF_TOKEN", "HF_ENDPOINT"})
HUB_PREFIX = "HF_HUB_"
TUNABLES = "GLIBC_TUNABLES"
HUGE_PAGES = "glibc.malloc.hugetlb"


def build_child_environment(
    own: Mapping[str, str], *, device: Mapping[str, str], threads: int
) -> dict[str, str]:
    """What a child gets: of our own environment only names known to be no secret.

    Args:
        own: the agent's environment.
        device: the variables that show it one GPU or none (`show_one_gpu`, `masks.HIDE_GPUS`).
        threads: CPU threads of its libraries.
    """
    kept = {
        name: value
        for name, value in own.items()
        if (name in NAMES or name.startswith(PREFIXES)) and name not in MASKS
    }
    return {**kept, **device, "OMP_NUM_THREADS": str(threads), "PYTHONUNBUFFERED": "1"}


def show_hugging_face(own: Mapping[str, str]) -> dict[str, str]:
    """Where a trainer finds pretrained models, and the token that opens the gated ones.

    `HF_TOKEN` is the one credential that a child gets: the user gave it to this worker for these
    downloads alone, and it is the trainer that makes them. What exports, or asks the hardware,
    fetches nothing and does not get it.
    """
    return {
        name: value
        for name, value in own.items()
        if name in HUB_NAMES or name.startswith(HUB_PREFIX)
    }


def use_huge_pages(own: Mapping[str, str]) -> dict[str, str]:
    """What has a process on a CPU keep its tensors in transparent huge pages, where there are any.

    glibc reads it when a process starts, and asks the kernel for them; most systems give them only
    to who asks. A step then looks up 512 times fewer pages: the bare one of amdnet, batch 64, took
    16.3 to 17.5 instead of 21.0 to 21.3 ms, a job's 19.0 instead of 20.7 ms, and a waiting trainer
    is as large as before (2 cores of an EPYC 9004 in a virtual machine, torch 2.13, November 2026).

    Args:
        own: the agent's environment; what it says of huge pages stands.

    Source: sourceware.org/glibc/manual, "Memory Allocation Tunables" (glibc 2.35 on).
    """
    said = own.get(TUNABLES, "")
    if HUGE_PAGES in said:
        return {TUNABLES: said}
    return {TUNABLES: ":".join(filter(None, [said, f"{HUGE_PAGES}=1"]))}


def show_every_gpu(own: Mapping[str, str]) -> dict[str, str]:
    """The masks that the agent itself runs under, unchanged."""
    return {name: own[name] for name in MASKS if name in own}


def show_one_gpu(index: int, own: Mapping[str, str], *, is_hip: bool) -> dict[str, str]:
    """The one variable that shows a child the GPU that torch numbers `index` in `own`.

    Masks that the agent itself runs under are applied in sequence by the runtime (HIP's numbers
    are relative to ROCR's set), so they are folded into one.
    """
    if not is_hip:
        return {"CUDA_VISIBLE_DEVICES": _pick(own.get("CUDA_VISIBLE_DEVICES"), str(index))}
    by_hip = _pick(own.get("HIP_VISIBLE_DEVICES") or own.get("CUDA_VISIBLE_DEVICES"), str(index))
    return {"ROCR_VISIBLE_DEVICES": _pick(own.get("ROCR_VISIBLE_DEVICES"), by_hip)}


def digest_environment(environment: Mapping[str, str]) -> str:
    """What a warm spare is keyed by: a job that needs another environment cannot use it."""
    return hashlib.sha256(json.dumps(sorted(environment.items())).encode()).hexdigest()


def _pick(mask: str | None, index: str) -> str:
    entries = [entry.strip() for entry in mask.split(",")] if mask else []
    if not entries or not index.isdecimal():
        return index
    return entries[int(index)] if int(index) < len(entries) else index
