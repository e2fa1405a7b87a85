"""Rows 8, 11 and 19: which cards are here, whether they idle, and whether they compute right."""

from redkiln.views.hardware import GpuFacts
from redkiln.views.self_test import SelfTestReport, SelfTestResult
from worker.hardware.choose import gpu_key
from worker.hardware.doctor.evidence import Evidence, count_gpus, name_of
from worker.hardware.doctor.finding import Finding, Row, bad, ok, set_command, unknown
from worker.hardware.facts.targets import Defect, find_target
from worker.hardware.health.verdicts import NO_HIPBLASLT, drop_handled

BUSY_RATIO = 0.95
"""A GPU without a job that is busier than this is stuck rather than working."""

VISIBLE = "ROCR_VISIBLE_DEVICES"

NO_WHEEL = "no_wheel"
"""The defect of a target that no build has kernels for; row 1 reports it."""


def check_integrated(evidence: Evidence) -> Finding:
    """Row 8: check for an integrated GPU next to discrete cards."""
    integrated = [gpu for gpu in evidence.usable_gpus if gpu.is_apu]
    discrete = [gpu for gpu in evidence.usable_gpus if gpu.is_apu is False]
    if not evidence.usable_gpus:
        return unknown("no GPU can be opened here")
    if not integrated or not discrete:
        kind = "integrated" if integrated else "discrete"
        return ok(f"{count_gpus(len(evidence.usable_gpus))}, {kind}")
    if mask := evidence.environment.get(VISIBLE):
        return ok(f"{VISIBLE}={mask} selects among them")
    small, card = integrated[0], discrete[0]
    return bad(
        "note",
        evidence=f"{name_of(small)} ({small.cu_count or '?'} CU) can be opened next to "
        f"{name_of(card)} ({card.cu_count or '?'} CU)",
        cause="ROCm lists both; programs that use the wrong one crash or see little memory. "
        "Redkiln hides it from its own jobs",
        fix=_pass_only(card, evidence),
        command=set_command(f"{VISIBLE}={card.uuid or 0}", evidence),
        on_host=evidence.is_container,
        details={"integrated": gpu_key(small), "discrete": gpu_key(card)},
    )


def check_idle(evidence: Evidence) -> Finding:
    """Row 11: check for a GPU that is fully busy without work."""
    measured = [g for g in evidence.gpus if g.telemetry and g.telemetry.busy_ratio is not None]
    if not measured:
        return unknown("no card reports how busy it is")
    if evidence.busy_gpus is None:
        return unknown("it is unknown which GPUs a job uses")
    for gpu in measured:
        if gpu_key(gpu) in evidence.busy_gpus or not _is_busy(gpu):
            continue
        holders = ", ".join(f"{p.name} ({p.pid})" for p in evidence.gpu_processes)
        return bad(
            "slows",
            evidence=f"{name_of(gpu)}: {_describe_load(gpu)}, but no job of this worker uses it; "
            + (f"open in {holders}" if holders else "no process has it open"),
            cause="hardware queues that never become idle while any program has the GPU open, "
            "or another program's work",
            fix=f"kill {evidence.gpu_processes[0].pid}   (llama.cpp: GPU_MAX_HW_QUEUES=1)"
            if evidence.gpu_processes
            else f"end the program that has it open: sudo fuser -v /dev/kfd /dev/dri/renderD"
            f"{gpu.render_minor if gpu.render_minor is not None else '*'}",
            command=f"kill {evidence.gpu_processes[0].pid}"
            if evidence.gpu_processes
            else "sudo fuser -v /dev/kfd",
            on_host=evidence.is_container,
        )
    return ok("; ".join(f"{name_of(gpu)}: {_describe_load(gpu)}" for gpu in measured))


def check_numbers(evidence: Evidence) -> Finding:
    """Row 19: check for GPUs that compute wrong numbers without an error."""
    failed = [report for report in map(drop_handled, evidence.self_tests) if report.bad]
    if failed:
        return _judge_failed(failed[0], evidence)
    for gpu in _to_train_on(evidence):
        if defect := find_blocking(gpu):
            return bad(
                "blocks",
                evidence=f"{name_of(gpu)} has a known defect: {defect.text} ({defect.source})",
                cause="the hardware or its compiler, with any build",
                fix=defect.fix or "train on another GPU; jobs do not use this one",
            )
    if not evidence.gpus:
        return unknown("there is no GPU to test")
    passed = {report.pci_address for report in evidence.self_tests if report.status != "error"}
    untested = [gpu for gpu in _to_train_on(evidence) if gpu.pci_address not in passed]
    if untested:
        rocm = evidence.torch.rocm_release if evidence.torch else None
        known = [
            f"{gpu.gfx}: {defect.text}"
            for gpu in untested
            for defect in _defects(gpu.gfx or "")
            if defect.affects(rocm)
        ]
        names = ", ".join(map(name_of, untested))
        return unknown(
            f"not tested with these versions: {names}"
            + (f"; known of {'; '.join(dict.fromkeys(known))}" if known else ""),
            fix="python -m worker.hardware.selftest",
        )
    return ok(f"{len(passed)} tested: results agree with float64 on the CPU")


def find_blocking(gpu: GpuFacts) -> Defect | None:
    """Return the defect because of which a GPU's numbers are not trusted, by its architecture."""
    defects = _defects(gpu.gfx) if gpu.gfx else ()
    is_wrong = (d for d in defects if d.severity == "blocks" and d.code != NO_WHEEL)
    return next(is_wrong, None)


def _defects(gfx: str) -> tuple[Defect, ...]:
    target = find_target(gfx)
    return target.defects if target else ()


def _to_train_on(evidence: Evidence) -> tuple[GpuFacts, ...]:
    gpus = evidence.usable_gpus or evidence.gpus
    return tuple(gpu for gpu in gpus if gpu.is_apu is False) or gpus


def _judge_failed(report: SelfTestReport, evidence: Evidence) -> Finding:
    shown = "; ".join(list(dict.fromkeys(map(_describe_result, report.bad)))[:3])
    libraries = {result.library for result in report.bad}
    is_hipblaslt = libraries == {"hipblaslt"}
    where = report.pci_address or report.device
    return bad(
        "slows" if is_hipblaslt else "blocks",
        evidence=f"{report.gfx or report.name or 'the GPU'} at {where}, {report.at:%Y-%m-%d}: "
        f"{len(report.bad)} of {len(report.results)} tests failed. {shown}",
        cause="hipBLASLt computes wrong numbers on this GPU; rocBLAS does not"
        if is_hipblaslt
        else "the GPU, or a library on it, computes wrong numbers without an error",
        fix=NO_HIPBLASLT
        if is_hipblaslt
        else "another ROCm and torch build, then: python -m worker.hardware.selftest   "
        "(until it passes, jobs do not use the GPU)",
        command=set_command(NO_HIPBLASLT, evidence) if is_hipblaslt else "",
        on_host=is_hipblaslt and evidence.is_container,
    )


def _describe_result(result: SelfTestResult) -> str:
    wrong = result.error or (
        f"error {_number(result.max_rel_error)}, allowed {result.tolerance:.1e}"
    )
    zeros = f", {result.zeros_ratio:.0%} zeros" if result.zeros_ratio > 0.5 else ""
    by = result.library or "torch"
    return f"{result.area} {result.precision} {result.shape} by {by}: {wrong}{zeros}"


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.1e}"


def _is_busy(gpu: GpuFacts) -> bool:
    assert gpu.telemetry is not None, "checked by the caller"
    return (gpu.telemetry.busy_ratio or 0.0) >= BUSY_RATIO


def _describe_load(gpu: GpuFacts) -> str:
    assert gpu.telemetry is not None, "checked by the caller"
    busy = f"{gpu.telemetry.busy_ratio:.0%} busy"
    watts = gpu.telemetry.power_watts
    return busy if watts is None else f"{busy}, {watts:.0f} W"


def _pass_only(card: GpuFacts, evidence: Evidence) -> str:
    if evidence.is_container and card.render_minor is not None:
        return f"devices: !override [/dev/kfd, /dev/dri/renderD{card.render_minor}]   in compose"
    return f"{VISIBLE}={card.uuid or 0}, or disable the integrated GPU in the BIOS"


ROWS = (
    Row(
        8,
        "no_integrated_gpu",
        "integrated GPU",
        "a segmentation fault, the wrong card, or hardly any memory",
        check_integrated,
    ),
    Row(
        11,
        "rests_when_idle",
        "rest when idle",
        "100 % busy and 80 to 100 W with nothing to do",
        check_idle,
    ),
    Row(
        19,
        "right_numbers",
        "right numbers",
        "wrong results, NaN, or a loss that does not fall, without an error",
        check_numbers,
    ),
)
