"""`apply_fade_patches()`: for programs that call FADE; applies what is correct, explains the rest.

FADE (Painter3000/amd-gpu-torch-runtime-patch) replaced functions of torch to double the numbers of
compute units and lanes. The report shows what is done instead, and why the rest is not done.
"""

import importlib
import os
from collections.abc import MutableMapping
from dataclasses import dataclass
from types import ModuleType

from redkiln.views.hardware import PatchOutcome
from worker.hardware.patch_words import describe_outcomes
from worker.hardware.patches import merge_environment, merge_settings
from worker.hardware.program import decide_for_torch
from worker.hardware.torch_settings import Undo, apply_settings


@dataclass(frozen=True)
class LeftAlone:
    """Something that FADE did and Redkiln does not."""

    what: str
    why: str
    source: str


LEFT_ALONE = (
    LeftAlone(
        "`warp_size` = 64 on RDNA",
        "a wave of RDNA has 32 lanes; Inductor, Triton and bitsandbytes launch kernels with this "
        "number, and a wrong one causes launch failures, or wrong numbers without an error",
        "HIP documentation, hardware_features.rst; ROCm/pytorch#1417; triton-lang/triton#3083; "
        "bitsandbytes-foundation/bitsandbytes#1885",
    ),
    LeftAlone(
        "`multi_processor_count` doubled",
        "HIP counts work-group processors of two compute units each, so the number is right; it "
        "only sizes grids, and half of its readers would still get the old one",
        "ROCm/hip#3767, #2687; pytorch/pytorch#141687",
    ),
    LeftAlone(
        "`get_device_properties` wrapped",
        "the copy is not a `_CudaDeviceProperties`, C++ never sees it, and Inductor keeps the "
        "original from its import",
        "torch/_dynamo/device_interface.py, torch/_inductor/runtime/hints.py",
    ),
    LeftAlone(
        "`device_count`, `current_device`, `set_device` wrapped",
        "they only logged and set variables; nothing was wrong with them",
        "fade_v11_plus.py",
    ),
    LeftAlone(
        "`HIP_VISIBLE_DEVICES=0` and `CUDA_VISIBLE_DEVICES=0` set",
        "every process that is started later loses all other GPUs: workers of a DataLoader, ranks "
        "of torchrun",
        "fade_v11_plus.py; HIP documentation of these variables",
    ),
    LeftAlone(
        "`FADE_FORCE_WARP_SIZE`, `FADE_FORCE_MP_COUNT` set for any AMD GPU",
        "only FADE reads the first; the second is tried for Inductor alone if you set it, and kept "
        "only where it is faster",
        "fade_v11_plus.py; worker/trainer/autotune/processors.py",
    ),
    LeftAlone(
        "detection of work on the CPU (announced)",
        "its code never contained this; the worker's guard does it: it checks where parameters and "
        "batches are, and whether the device worked",
        "fade_v11_plus.py; docs/hardware.md",
    ),
)


@dataclass(frozen=True)
class FadeReport:
    """What `apply_fade_patches` did and did not do.

    Attributes:
        outcomes: Outcomes of the patches in `worker.hardware.patches`.
        too_late: Variables that had to be set before the first use of the GPU.
        problems: Switches that this torch does not have.
        undo: Restores torch's switches; variables stay set.
    """

    outcomes: tuple[PatchOutcome, ...]
    too_late: tuple[str, ...]
    problems: tuple[str, ...]
    undo: Undo
    left_alone: tuple[LeftAlone, ...] = LEFT_ALONE

    def __str__(self) -> str:
        lines = ["Patches for this hardware:", describe_outcomes(self.outcomes)]
        if self.too_late:
            names = ", ".join(self.too_late)
            lines.append(f"Too late, a GPU is in use already: {names}. Call this earlier, or use")
            lines.append("`python -m worker.hardware run -- python <your program>`.")
        lines += self.problems
        lines += ["", "What FADE did and Redkiln does not:"]
        lines += [f" - {item.what}: {item.why}. [{item.source}]" for item in self.left_alone]
        return "\n".join(lines)


def apply_fade_patches(
    torch: ModuleType | None = None, *, environ: MutableMapping[str, str] = os.environ
) -> FadeReport:
    """Apply the correct changes to this process; values that FADE faked stay as they are.

    Args:
        torch: The torch module; by default the installed one, which is imported if necessary.
        environ: Receives variables that the user has not set, unless it is too late.

    Raises:
        ImportError: torch is not installed.
    """
    torch = torch or importlib.import_module("torch")
    outcomes = decide_for_torch(torch, environ=environ)
    variables = merge_environment(outcomes)
    is_late = bool(torch.cuda.is_initialized())
    if not is_late:
        environ.update(variables)
    undo, problems = apply_settings(torch, merge_settings(outcomes))
    return FadeReport(
        outcomes=tuple(outcomes),
        too_late=tuple(sorted(variables)) if is_late else (),
        problems=tuple(f"{name}: {problem}" for name, problem in problems.items()),
        undo=undo,
    )
