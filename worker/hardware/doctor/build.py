"""Rows 1, 2, 7 and 20: whether this build of torch fits this GPU."""

from redkiln.views.hardware import GpuFacts
from worker.hardware.doctor.evidence import Evidence, Torch, name_of
from worker.hardware.doctor.finding import Finding, Row, bad, ok, unknown
from worker.hardware.facts.targets import Target, find_target, find_wheel_target

DEVICE_WHEELS = ("amd-torch-device-", "rocm-sdk-device-")
"""Distributions with the kernels of one architecture. Source: ROCm/TheRock RELEASES.md."""

WHEEL_INDEX = "https://stable.repo.amd.com/rocm/whl-next/"
"""AMD's index of builds for ROCm 10, the default of compose.yaml. Source: ROCm/TheRock."""


ALL_ARCHES = "all"
"""The device wheels of every architecture, for a GPU whose own is unknown.

Source: AMD documentation of ROCm 7.14, installation of PyTorch (read 2026-11-23).
"""


def check_arch(evidence: Evidence) -> Finding:
    """Row 1: compare the GPU's architecture with those of torch and its device wheels."""
    torch, gpus = evidence.torch, [gpu for gpu in evidence.gpus if gpu.gfx]
    if deaths := evidence.deaths_of(1):
        seen = f"attempt {deaths[-1].attempt_id} failed with: {deaths[-1].line}"
    else:
        seen = ""
    if torch is None or torch.hip is None or not gpus:
        return unknown(seen or "needs a ROCm build of torch and a GPU whose architecture is known")
    if not torch.arch_list and not _device_wheels(evidence):
        return unknown(f"torch {torch.version} does not report which kernels it has")
    missing = [gpu for gpu in _to_train_on(gpus) if not _is_built_for(gpu.gfx, evidence)]
    if not missing:
        names = ", ".join(sorted({gpu.gfx or "" for gpu in gpus}))
        return ok(
            f"{names}: among the {len(torch.arch_list)} architectures of torch {torch.version}"
        )
    arch = missing[0].gfx or ""
    wheel, override = find_wheel_target(arch), _find_override(arch, torch)
    if wheel is None:
        return _report_no_build(missing[0], arch, evidence)
    if override and wheel.gfx != arch and _is_built_for(wheel.gfx, evidence):
        return ok(
            f"{name_of(missing[0])} has no wheels. Jobs get "
            f"HSA_OVERRIDE_GFX_VERSION={override} once it has passed its probe"
        )
    return bad(
        "note" if override else "blocks",
        evidence=f"{name_of(missing[0])}; torch {torch.version} has {_list_built(evidence)}. "
        f"{seen}".strip(),
        cause=f"this build has no kernels for {arch}: its first operation fails with "
        "`invalid device function`"
        + (
            f". Jobs get HSA_OVERRIDE_GFX_VERSION={override} once it has passed its probe"
            if override
            else ""
        ),
        fix=_install(evidence, arch),
        command=_install_command(evidence, arch),
        on_host=evidence.is_container,
        details={"gfx": arch, "arch_list": list(torch.arch_list)},
    )


def _report_no_build(gpu: GpuFacts, arch: str, evidence: Evidence) -> Finding:
    """Return that no command can help a GPU, but for training without it."""
    target = find_target(arch)
    defect = target.blocking if target else None
    known = defect.text if defect else "it is not in the table of targets (docs/hardware.md)"
    return bad(
        "blocks",
        evidence=f"{name_of(gpu)}: {known}",
        cause=f"no published build of torch has kernels for {arch}",
        fix=(defect.fix if defect else "") or "train on another GPU, or on the CPU: device: cpu",
        command="./up --cpu" if evidence.is_container else "",
        on_host=evidence.is_container,
    )


def check_is_rocm(evidence: Evidence) -> Finding:
    """Row 2: check whether torch is a ROCm build."""
    torch = evidence.torch
    if torch is None:
        return unknown("torch was not checked")
    if torch.version is None:
        return bad(
            "blocks",
            evidence=torch.error or "torch cannot be imported",
            cause="nothing trains without torch",
            fix=_install(evidence, _first_arch(evidence)),
            command=_install_command(evidence, _first_arch(evidence)),
            on_host=evidence.is_container,
        )
    if torch.hip is not None:
        return ok(f"torch {torch.version} is built for ROCm {torch.rocm_release}")
    kind = f"for CUDA {torch.cuda}" if torch.cuda else "for CPUs only"
    if not evidence.has_amd_gpu:
        return ok(f"torch {torch.version} is built {kind}, and there is no AMD GPU here")
    return bad(
        "blocks",
        evidence=f"torch {torch.version}: torch.version.hip is None, it is built {kind}",
        cause="this build cannot open an AMD GPU, and reports only that none is available",
        fix=_install(evidence, _first_arch(evidence)),
        command=_install_command(evidence, _first_arch(evidence)),
        on_host=evidence.is_container,
    )


def check_amdsmi(evidence: Evidence) -> Finding:
    """Row 7: check for the `amdsmi` distribution next to a ROCm build of torch."""
    version = evidence.packages.get("amdsmi")
    if version is None:
        return ok("the package `amdsmi` is not installed next to torch")
    if not evidence.is_rocm:
        return ok(f"amdsmi {version} is installed, but torch is not a ROCm build")
    sees_nothing = evidence.torch is not None and evidence.torch.num_devices == 0
    return bad(
        "blocks" if sees_nothing and evidence.usable_gpus else "note",
        evidence=f"amdsmi {version} is installed; torch counts {_count(evidence.torch)} devices",
        cause="it loads a second libamd_smi, after which torch may count 0 devices",
        fix="python -m pip uninstall --yes amdsmi",
        command="python -m pip uninstall --yes amdsmi",
    )


def check_bf16(evidence: Evidence) -> Finding:
    """Row 20: check for bf16 on a GPU without it."""
    deaths = evidence.deaths_of(20)
    lacking = [gpu for gpu in evidence.gpus if has_bf16(gpu.gfx) is False]
    if deaths:
        where = f" on {name_of(lacking[0])}" if lacking else ""
        return bad(
            "slows",
            evidence=f"attempt {deaths[-1].attempt_id} failed{where}: {deaths[-1].line}",
            cause="the GPU has no bf16 instructions, or its compiler has none for this kernel; "
            "torch.cuda.is_bf16_supported() returns True on every ROCm GPU",
            fix="in the job's spec: training: {precision: fp16}   (or fp32)",
        )
    if lacking:
        return ok(f"{name_of(lacking[0])} has no bf16; `precision: auto` does not choose it")
    if not any(has_bf16(gpu.gfx) for gpu in evidence.gpus):
        return unknown("there is no GPU whose architecture is known")
    return ok("the architectures here have bf16, and no compiler has failed")


def has_bf16(gfx: str | None) -> bool | None:
    """Return whether an architecture has bf16 instructions; None if unknown."""
    target = gfx and find_target(gfx)
    return target.has_bf16 if target else None


def _to_train_on(gpus: list[GpuFacts]) -> list[GpuFacts]:
    """Return the GPUs that jobs would use: the discrete ones, or else all."""
    return [gpu for gpu in gpus if gpu.is_apu is False] or gpus


def _is_built_for(gfx: str | None, evidence: Evidence) -> bool:
    assert evidence.torch is not None, "checked by the caller"
    wheels = _device_wheels(evidence)
    is_listed = not evidence.torch.arch_list or gfx in evidence.torch.arch_list
    return is_listed and (not wheels or bool(wheels & {gfx, "all"}))


def _find_override(arch: str, torch: Torch) -> str | None:
    target = find_target(arch)
    if target is None or target.override.needs not in torch.arch_list:
        return None
    return target.override.value


def _device_wheels(evidence: Evidence) -> set[str]:
    return {
        name.removeprefix(prefix)
        for name in evidence.packages
        for prefix in DEVICE_WHEELS
        if name.startswith(prefix)
    }


def _list_built(evidence: Evidence) -> str:
    wheels = _device_wheels(evidence)
    listed = ", ".join(evidence.torch.arch_list) if evidence.torch else ""
    built = f"kernels for {listed}" if listed else "kernels for unknown architectures"
    return f"{built}, and device wheels for {', '.join(sorted(wheels))}" if wheels else built


def _first_arch(evidence: Evidence) -> str | None:
    known = [gpu for gpu in evidence.gpus if gpu.gfx]
    return _to_train_on(known)[0].gfx if known else None


def _install(evidence: Evidence, arch: str | None) -> str:
    where = "on the host: " if evidence.is_container else ""
    return where + _install_command(evidence, arch)


def _install_command(evidence: Evidence, arch: str | None) -> str:
    """Return a command that stays in effect: `./up` writes what it chooses into .env."""
    wheel = find_wheel_target(arch) if arch else None
    if evidence.is_container:
        return _choose_image(evidence, wheel)
    extra = wheel.gfx if wheel else ALL_ARCHES
    return f'python -m pip install --index-url {WHEEL_INDEX} "torch[device-{extra}]"'


def _choose_image(evidence: Evidence, wheel: Target | None) -> str:
    """Return the option of `./up` whose image has kernels for the GPUs; slim is for one target."""
    known = {gpu.gfx for gpu in _to_train_on(list(evidence.gpus)) if gpu.gfx}
    if wheel is None:
        return "./up --cpu" if known else "./up --full"
    targets = [find_target(gfx) for gfx in known]
    needs_all = len(known) > 1 and all(each and each.in_full_image for each in targets)
    return "./up --full" if needs_all else "./up --slim"


def _count(torch: Torch | None) -> str:
    return "unknown" if torch is None or torch.num_devices is None else str(torch.num_devices)


ROWS = (
    Row(
        1,
        "arch_not_in_build",
        "kernels for the GPU's arch",
        "`invalid device function`, `hipErrorNoBinaryForGpu`, `device kernel image is invalid`",
        check_arch,
    ),
    Row(
        2,
        "torch_is_rocm",
        "torch's build",
        "`torch.cuda.is_available()` is False and `torch.version.hip` is None",
        check_is_rocm,
    ),
    Row(
        7,
        "no_amdsmi",
        "the package amdsmi",
        "torch counts 0 devices while `rocminfo` is fine",
        check_amdsmi,
    ),
    Row(
        20,
        "bf16",
        "bf16",
        "`LLVM ERROR: Cannot select ...`, and the process is gone",
        check_bf16,
    ),
)
