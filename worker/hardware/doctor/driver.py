"""Rows 6, 9, 10 and 12: the driver, its firmware, and its messages in the kernel's log."""

import re
from collections.abc import Mapping
from dataclasses import replace

from worker.hardware.doctor.evidence import Evidence, count_gpus, name_of
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown
from worker.hardware.doctor.overrides import (
    describe_overrides,
    find_overrides,
    judge_overrides,
    unset_command,
)
from worker.hardware.facts.firmware_needs import is_broken_mes
from worker.hardware.facts.sysfs import parse_hexadecimal
from worker.hardware.health.deaths import recognise_kernel

CWSR_FIXED_IN = (6, 18)
"""First kernel whose amdgpu has the fixes for hanging queues. Source: ROCm/ROCm#5724."""

FAILED_RESET = re.compile(
    r"GPU [Rr]ecovery [Ff]ailed|GPU reset\(?\d*\)? failed|device wedged", re.IGNORECASE
)
REJECTS_ATOMICS = re.compile(r"PCI rejects atomics|[Pp]cie atomics not enabled")


def check_runtime(evidence: Evidence) -> Finding:
    """Row 6: check whether ROCm's runtime starts: overrides, and driver against userland."""
    versions = _versions(evidence)
    if (wrong := judge_overrides(evidence)) is not None:
        return replace(wrong, evidence=f"{wrong.evidence}; {versions}")
    torch = evidence.torch
    if deaths := evidence.deaths_of(6):
        seen = f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}"
    elif torch is not None and "OUT_OF_RESOURCES" in (torch.error or ""):
        seen = f"torch: {torch.error}"
    elif evidence.is_rocm and evidence.usable_gpus and torch and torch.num_devices == 0:
        seen = "the nodes can be opened, but torch counts 0 devices"
    else:
        return _judge_runtime(evidence, versions)
    if "amdsmi" in evidence.packages:
        return unknown(
            f"{seen}; the package amdsmi may be the cause",
            fix="see the check of the package amdsmi first",
        )
    return bad(
        "blocks",
        evidence=f"{seen}; {versions}",
        cause="the driver is too old or too new for this ROCm",
        fix="update the driver to ROCm's release (amdgpu-dkms of the same version), or the kernel "
        "to the distribution's latest, and reboot",
    )


def check_memory_fault(evidence: Evidence) -> Finding:
    """Row 9: check for a GPU that accessed memory outside its own."""
    seen = _seen_in_log(evidence, "memory_fault")
    if deaths := evidence.deaths_of(9):
        seen = f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}"
    overrides = find_overrides(evidence.environment)
    if not seen:
        return _nothing_seen(evidence, "no memory fault")
    return bad(
        "slows",
        evidence=seen,
        cause="a kernel built for another architecture (an override), or a defect of a library; "
        "jobs that fail because of it are retried",
        fix=f"unset {' '.join(overrides)}"
        if overrides
        else "a newer ROCm; if it names hipBLASLt: TORCH_BLAS_PREFER_HIPBLASLT=0",
        command=unset_command(overrides, evidence) if overrides else "",
        on_host=bool(overrides) and evidence.is_container,
    )


def check_hang(evidence: Evidence) -> Finding:
    """Row 10: check for a GPU that hung, or whose firmware is known to hang."""
    seen = _seen_in_log(evidence, "gpu_hang")
    if deaths := evidence.deaths_of(10):
        seen = f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}"
    firmware = _find_broken_mes(evidence)
    if not seen and not firmware:
        return _nothing_seen(evidence, "no hang")
    has_failed = any(FAILED_RESET.search(line) for line in evidence.kernel_log or ())
    return bad(
        "blocks" if has_failed else "slows",
        evidence="; ".join(text for text in (seen, firmware, _kernel(evidence)) if text),
        cause="the reset failed: the GPU is unusable until the next reboot"
        if has_failed
        else "firmware (MES) or the saving of waves (CWSR)",
        fix="sudo reboot" if has_failed else _avoid_hangs(evidence),
        command="sudo reboot" if has_failed else "",
        on_host=evidence.is_container,
    )


def check_atomics(evidence: Evidence) -> Finding:
    """Row 12: check PCIe atomics between the processor and the GPU."""
    for line in (*(evidence.kernel_log or ()), *_lines(evidence.logs)):
        if REJECTS_ATOMICS.search(line):
            is_skipped = "rejects" in line
            return bad(
                "blocks" if is_skipped else "slows",
                evidence=line.strip(),
                cause="the slot, riser or virtual machine does not support PCIe atomics",
                fix="move the card to a slot that is wired to the processor, without a riser",
            )
    links = [
        (gpu, link)
        for gpu in evidence.gpus
        for link in gpu.links
        if link.to_pci_address is None and link.kind == "pcie"
    ]
    lacking = [gpu for gpu, link in links if False in (link.has_atomics_32, link.has_atomics_64)]
    if lacking:
        return bad(
            "slows",
            evidence=f"the link between {name_of(lacking[0])} and the processor has no atomics",
            cause="an old slot, a riser or a virtual machine between them",
            fix="move the card to a slot that is wired to the processor, without a riser",
        )
    if any(link.has_atomics_32 for _, link in links):
        return ok(f"PCIe atomics work between the processor and {count_gpus(len(links))}")
    return unknown("the driver does not report which atomics its links support")


def _judge_runtime(evidence: Evidence, versions: str) -> Finding:
    torch, overrides = evidence.torch, describe_overrides(evidence)
    if evidence.is_rocm and torch is not None and torch.num_devices:
        return ok(f"torch opens {count_gpus(torch.num_devices)}; {overrides}; {versions}")
    if not evidence.gpus:
        return unknown("there is no GPU to start the runtime on")
    if not evidence.is_rocm:
        return unknown(f"only a ROCm build of torch can check this; {overrides}; {versions}")
    return unknown(f"torch was not asked for its devices; {overrides}; {versions}")


def _versions(evidence: Evidence) -> str:
    driver = evidence.driver_version
    kernel = evidence.kernel_release or "unknown"
    rocm = evidence.torch.rocm_release if evidence.torch else None
    return f"amdgpu {driver or f'of kernel {kernel}'}, ROCm {rocm or 'unknown'}"


def _seen_in_log(evidence: Evidence, cause: str) -> str:
    found = [
        line
        for line in evidence.kernel_log or ()
        if (known := recognise_kernel([line])) is not None and known[0].name == cause
    ]
    return f"{len(found)} in the kernel's log; the last one: {found[-1]}" if found else ""


def _nothing_seen(evidence: Evidence, nothing: str) -> Finding:
    if evidence.kernel_log is None:
        return unknown(
            "no job has failed because of it, and this process may not read the kernel's log",
            fix="sudo dmesg | grep -i amdgpu",
        )
    return ok(f"{nothing} in the kernel's log, and no job has failed because of one")


def _find_broken_mes(evidence: Evidence) -> str:
    for gpu in evidence.gpus:
        versions = evidence.firmware.get(gpu.pci_address or "", {})
        if is_broken_mes(gpu.gfx, parse_hexadecimal(versions.get("MES", ""))):
            return f"{name_of(gpu)} has MES firmware {versions['MES']}"
    return ""


def _kernel(evidence: Evidence) -> str:
    return f"kernel {evidence.kernel_release}" if evidence.kernel_release else ""


def _avoid_hangs(evidence: Evidence) -> str:
    setting = "amdgpu.cwsr_enable=0 on the kernel's command line"
    numbers = re.match(r"(\d+)\.(\d+)", evidence.kernel_release or "")
    if numbers and tuple(map(int, numbers.groups())) >= CWSR_FIXED_IN:
        return f"install the latest linux-firmware; if it still hangs: {setting}"
    wanted = ".".join(map(str, CWSR_FIXED_IN))
    return f"the latest linux-firmware and a kernel from {wanted} on; until then {setting}"


def _lines(logs: Mapping[str, str]) -> list[str]:
    return [line for text in logs.values() for line in text.splitlines()]


ROWS = (
    Row(
        6,
        "runtime_starts",
        "ROCm's runtime",
        "`hsa_init` fails with `HSA_STATUS_ERROR_OUT_OF_RESOURCES`",
        check_runtime,
    ),
    Row(
        9,
        "no_memory_fault",
        "memory faults",
        "`Memory access fault by GPU node-1 ... Page not present`",
        check_memory_fault,
    ),
    Row(
        10,
        "no_hang",
        "hangs",
        "`HW Exception by GPU node-1 ... GPU Hang`, `MES failed to respond`",
        check_hang,
    ),
    Row(
        12,
        "pcie_atomics",
        "PCIe atomics",
        "`PCI rejects atomics`, `Pcie atomics not enabled`",
        check_atomics,
    ),
)
