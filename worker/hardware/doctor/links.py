"""Row 21: several GPUs that wait for each other forever."""

from collections.abc import Sequence

from redkiln.views.hardware import GpuFacts
from worker.hardware.choose import gpu_key
from worker.hardware.doctor.evidence import Evidence, count_gpus
from worker.hardware.doctor.finding import Finding, Row, bad, ok, set_command, unknown
from worker.hardware.peers import PeerVerdict

NO_P2P = "NCCL_P2P_DISABLE"


def check_links(evidence: Evidence) -> Finding:
    """Row 21: use a trial of the links, or check whether an IOMMU is between GPUs on PCIe."""
    usable = [gpu for gpu in evidence.usable_gpus if not gpu.is_apu]
    if deaths := evidence.deaths_of(21):
        return _judge(f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}", evidence)
    if len(usable) < 2:
        return ok(f"{count_gpus(len(usable))}: no transfers between GPUs")
    if (verdict := _find_verdict(evidence, usable)) is not None:
        return _judge_verdict(verdict, evidence)
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
            + ("iommu=pt is set" if "iommu=pt" in words else "no IOMMU is enabled")
        )
    return _judge(f"{count_gpus(len(usable))} over PCIe, an IOMMU, and no iommu=pt", evidence)


def _find_verdict(evidence: Evidence, usable: Sequence[GpuFacts]) -> PeerVerdict | None:
    """Return the latest trial of GPUs that are present, with the installed torch."""
    here = {gpu_key(gpu) for gpu in usable}
    torch = evidence.torch.version if evidence.torch else None
    of_these = [
        verdict
        for verdict in evidence.peer_verdicts
        if set(verdict.gpus) <= here and torch in (None, verdict.torch)
    ]
    return of_these[-1] if of_these else None


def _judge_verdict(verdict: PeerVerdict, evidence: Evidence) -> Finding:
    names = ", ".join(verdict.gpus)
    if not verdict.has_passed:
        return _judge(f"a trial of {names} failed: {verdict.problem}", evidence)
    if verdict.environment:
        return _judge(
            f"a trial of {names} succeeded only through main memory; directly: {verdict.problem}",
            evidence,
        )
    rate = (verdict.bytes_per_second or 0.0) / 1e9
    return ok(f"a trial of {names} passed: right numbers at {rate:.1f} GB/s")


def _judge(seen: str, evidence: Evidence) -> Finding:
    return bad(
        "slows",
        evidence=seen,
        cause="an IOMMU that translates peer-to-peer transfers: the first all-reduce hangs or "
        "returns wrong numbers; jobs on one GPU are not affected",
        fix=f"iommu=pt on the kernel's command line (GRUB_CMDLINE_LINUX_DEFAULT, then sudo "
        f"update-grub && sudo reboot), or {NO_P2P}=1"
        + ("   in the worker's environment" if evidence.is_container else ""),
        command=set_command(f"{NO_P2P}=1", evidence),
        on_host=evidence.is_container,
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
