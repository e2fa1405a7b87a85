"""Row 24: libraries of the system that ROCm's build of torch needs."""

import re

from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown
from worker.hardware.health.deaths import LIBRARY_MISSING

PACKAGES = {
    "libatomic.so.1": ("libatomic1", "libatomic"),
    "libdrm.so.2": ("libdrm2", "libdrm"),
    "libdrm_amdgpu.so.1": ("libdrm-amdgpu1", "libdrm"),
    "libelf.so.1": ("libelf1", "elfutils-libelf"),
    "libgfortran.so.5": ("libgfortran5", "libgfortran"),
    "libgomp.so.1": ("libgomp1", "libgomp"),
    "libnuma.so.1": ("libnuma1", "numactl-libs"),
    "libquadmath.so.0": ("libquadmath0", "libquadmath"),
    "libstdc++.so.6": ("libstdc++6", "libstdc++"),
}
"""Packages with a library: of Debian and Ubuntu, and of Fedora. Source: packages.debian.org and
packages.fedoraproject.org, 2026-11-23."""
OF_ROCM = ("libamd", "libhip", "libhsa", "libMIOpen", "libroc", "librccl")
"""How the names of ROCm's own libraries begin."""


def check_libraries(evidence: Evidence) -> Finding:
    """Row 24: find the library that the loader could not open."""
    texts = [evidence.torch.error or ""] if evidence.torch is not None else []
    texts += [death.line for death in evidence.deaths_of(24)]
    found = next((found for text in texts if (found := re.search(LIBRARY_MISSING, text))), None)
    if found is None:
        if evidence.torch is None:
            return unknown("torch was not checked")
        return ok("no library was missing when torch was imported")
    library = found[1]
    return bad(
        "blocks",
        evidence=found[0],
        cause="ROCm's libraries are in the wheels of torch, but the loader looks for them elsewhere"
        if library.startswith(OF_ROCM)
        else "torch needs this library of the system",
        fix=name_fix(library, is_container=evidence.is_container),
        command="" if evidence.is_container else _find_command(library, evidence),
    )


def name_fix(library: str, *, is_container: bool) -> str:
    """Return the command that makes a library available."""
    if library.startswith(OF_ROCM):
        return "unset LD_LIBRARY_PATH, then install torch and its ROCm wheels again"
    if library not in PACKAGES:
        return f"install the package that contains {library}"
    debian, fedora = PACKAGES[library]
    if is_container:
        build = "docker compose up --detach --build worker"
        return f"add {debian} to the packages in docker/worker.Dockerfile, then {build}"
    return f"sudo apt install {debian} (Debian, Ubuntu), or sudo dnf install {fedora} (Fedora)"


def _find_command(library: str, evidence: Evidence) -> str:
    debian, fedora = PACKAGES.get(library, ("", ""))
    if debian and "debian" in evidence.system_names:
        return f"sudo apt install {debian}"
    return f"sudo dnf install {fedora}" if fedora and "fedora" in evidence.system_names else ""


ROWS = (
    Row(
        24,
        "system_libraries",
        "libraries of the system",
        "`libatomic.so.1: cannot open shared object file` when torch is imported",
        check_libraries,
    ),
)
