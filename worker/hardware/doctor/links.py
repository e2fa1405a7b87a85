"""Row 21: several GPUs that wait for each other for ever."""

from worker.hardware.doctor.evidence import Evidence, count_gpus
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown

NO_P2P = "NCCL_P2P_DISABLE"


def check_links(evidence: Evidence) -> Finding:
    """Row 21: whether an IOMMU stands between GPUs that exchange over PCIe."""
    usable = [gpu for gpu in evidence.usable_gpus if not gpu.is_apu]
    if deaths := evidence.deaths_of(21):
        return _judge(f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}", evidence)
    if len(usable) < 2:
        return ok(f"{count_gpus(len(usable))}: none has another to wait for")
    if all(any(link.kind == "xgmi" for link in gpu.links) for gpu in usable):
        return ok(f"{count_gpus(len(usable))}, linked by xGMI")
    if evidence.environment.get(NO_P2P) == "1":
        return ok(f"{NO_P2P}=1: GPUs exchange through main memory")
    if evidence.command_line is None:
        return unknown("the kernel's command line cannot be read")
    words = evidence.command_line.split()
    if "iommu=pt" in words or not evidence.has_iommu or {"amd_iommu=off", "iommu=off"} & {*words}:
        return ok(
            f"{count_gpus(len(usable))} over PCIe, and "
            + ("iommu=pt is set" if "iommu=pt" in words else "no IOMMU is on")
        )
    return _judge(f"{count_gpus(len(usable))} over PCIe, an IOMMU, and no iommu=pt", evidence)


def _judge(seen: str, evidence: Evidence) -> Finding:
    return bad(
        "slows",
        evidence=seen,
        cause="an IOMMU that translates peer-to-peer transfers: the first all-reduce hangs or "
        "returns wrong numbers; jobs on one GPU are not touched",
        fix=f"iommu=pt on the kernel's command line (GRUB_CMDLINE_LINUX_DEFAULT, then sudo "
        f"update-grub && sudo reboot), or {NO_P2P}=1"
        + ("   in the worker's environment" if evidence.is_container else ""),
    )


ROWS = (
    Row(
        21,
        "peer_transfers",
        "transfers between GPUs",
        "several GPUs hang at their first all-reduce",
        check_links,
    ),
)
