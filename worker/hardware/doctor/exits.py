"""Rows 18 and 26 to 29: how trainers ended, where nothing else on the machine shows the cause."""

from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.finding import Finding, Row, bad, ok, set_command
from worker.hardware.facts.targets import find_target
from worker.hardware.health.verdicts import NO_HIPBLASLT, WITHOUT_MIOPEN, avoids_hipblaslt

GRAPHS_CRASH = "graphs_crash"
"""The defect of a target on which captured graphs crash."""


def check_exits(evidence: Evidence) -> Finding:
    """Row 18: check for exit 139 (SIGSEGV) after everything was written."""
    crashed = [death for death in evidence.recent_deaths if death.is_complete]
    if not crashed:
        return ok("no process has crashed after its work was done")
    last = crashed[-1]
    return bad(
        "note",
        evidence=f"{len(crashed)} times, last in attempt {last.attempt_id} with status "
        f"{last.status} at {last.at:%Y-%m-%d %H:%M}",
        cause="a defect in the runtime's teardown; the results were written before and are valid",
        fix="nothing: the job has succeeded, with a warning",
    )


def check_convolutions(evidence: Evidence) -> Finding:
    """Row 26: check for convolutions that MIOpen refuses."""
    avoided = [
        report.pci_address or report.device
        for report in evidence.self_tests
        if any(result.library == WITHOUT_MIOPEN for result in report.results)
    ]
    if avoided:
        return ok(f"MIOpen refuses convolutions on {', '.join(avoided)}; jobs compute without it")
    died = _describe_last(evidence, 26)
    if not died:
        return ok("MIOpen has refused no convolution of a job")
    return bad(
        "slows",
        evidence=died,
        cause="MIOpen, ROCm's library for convolutions, failed; torch's own kernels may work",
        fix="nothing for jobs: the worker tests the GPU again, and if MIOpen fails there, jobs "
        "compute without it. In scripts: set torch.backends.cudnn.enabled = False, or install a "
        "newer ROCm",
    )


def check_products(evidence: Evidence) -> Finding:
    """Row 27: check for matrix products that hipBLASLt has no kernel for."""
    died = _describe_last(evidence, 27)
    if not died:
        return ok("hipBLASLt has refused no matrix product of a job")
    if avoids_hipblaslt(evidence.environment):
        return ok(f"{died}; hipBLASLt is avoided now")
    return bad(
        "slows",
        evidence=died,
        cause="hipBLASLt has no kernel for this product on this GPU; rocBLAS has",
        fix=NO_HIPBLASLT,
        command=set_command(NO_HIPBLASLT, evidence),
        on_host=evidence.is_container,
    )


def check_runtime_compiler(evidence: Evidence) -> Finding:
    """Row 28: check for kernels that ROCm could not compile at run time."""
    died = _describe_last(evidence, 28)
    if not died:
        return ok("HIPRTC has compiled the kernels of all jobs")
    return bad(
        "slows",
        evidence=died,
        cause="headers of ROCm's compiler contradict those of a newer C library of this system",
        fix="another release of ROCm: python -m docker.pin"
        if evidence.is_container
        else "run jobs in the container, whose C library fits its ROCm (./up), or a newer ROCm",
    )


def check_graphs(evidence: Evidence) -> Finding:
    """Row 29: check for captured graphs of HIP calls that failed."""
    if died := _describe_last(evidence, 29):
        return bad(
            "note",
            evidence=died,
            cause="a program captured calls of HIP in a graph, which fails on this GPU or ROCm",
            fix="in the script leave out torch.cuda.graph and the compile mode reduce-overhead; "
            "Redkiln's own tasks capture nothing",
        )
    known = [gpu.gfx for gpu in evidence.gpus if gpu.gfx and _crashes_on_graphs(gpu.gfx)]
    if known:
        return ok(f"programs that capture graphs crash on {', '.join(known)}; jobs capture none")
    return ok("no captured graph has failed")


def _crashes_on_graphs(gfx: str) -> bool:
    target = find_target(gfx)
    return target is not None and any(each.code == GRAPHS_CRASH for each in target.defects)


def _describe_last(evidence: Evidence, row: int) -> str:
    deaths = evidence.deaths_of(row)
    return f"attempt {deaths[-1].attempt_id}: {deaths[-1].line}" if deaths else ""


ROWS = (
    Row(
        18,
        "clean_exit",
        "exits after the work",
        "exit status 139 after a job that has finished",
        check_exits,
    ),
    Row(
        26,
        "convolutions",
        "convolutions of MIOpen",
        "`miopenStatusUnknownError`, `Invalid elapsed time`",
        check_convolutions,
    ),
    Row(
        27,
        "matrix_products",
        "matrix products of hipBLASLt",
        "`HIPBLAS_STATUS_NOT_SUPPORTED`",
        check_products,
    ),
    Row(
        28,
        "runtime_compiler",
        "kernels compiled at run time",
        "`HIPRTC_ERROR_COMPILATION`, `typedef redefinition with different types`",
        check_runtime_compiler,
    ),
    Row(
        29,
        "captured_graphs",
        "captured graphs",
        "`hipErrorStreamCaptureInvalidated`, or a crash when a program with graphs ends",
        check_graphs,
    ),
)
