"""The name under which programs import FADE; in scripts of jobs and under `worker.hardware run`.

Importing it changes nothing and does not import torch. `apply_fade_patches()` applies what is
correct for this hardware and returns a report of it and of what is not done, with the reasons. The
program's interpreter may lack Redkiln's libraries: then the report lists what was set before the
program started, which is the same set of patches.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = [
    "FadeSummary",
    "apply_fade_patches",
    "get_corrected_device_properties",
    "test_fade_effectiveness",
]

SETTINGS_VARIABLE = "REDKILN_TORCH_SETTINGS"
SOURCE_DIR = Path(__file__).resolve().parents[3]
REFUSED: Mapping[str, str] = {
    "FADE_FORCE_WARP_SIZE": "a wave of RDNA has 32 lanes; kernels that are launched with another "
    "number fail, or compute wrong numbers without an error",
    "FADE_FORCE_MP_COUNT": "HIP's number is right: it counts work-group processors, which have two "
    "compute units each; Redkiln's own jobs try your number, only in Inductor, and keep it if they "
    "are faster with it",
}
"""Variables of FADE that are not followed, with the reasons."""


class FadeSummary:
    """What was applied, as text.

    Attributes:
        applied: Switches of torch that were set when the program imported it.
        refused: Variables of FADE that the user set and that are not followed.
        detail: The full report, where Redkiln can be imported; empty elsewhere.
    """

    def __init__(self, applied: Mapping[str, str], refused: Mapping[str, str], detail: str) -> None:
        self.applied = dict(applied)
        self.refused = dict(refused)
        self.detail = detail

    def __str__(self) -> str:
        lines = [f"{name} is refused: {why}" for name, why in self.refused.items()]
        if self.detail:
            return "\n".join([*lines, self.detail])
        if self.applied:
            words = ", ".join(f"{name}={value}" for name, value in self.applied.items())
            lines.append(f"Set when torch was imported: {words}")
        else:
            lines.append("No patch of Redkiln changes torch on this hardware.")
        return "\n".join(lines)


def apply_fade_patches() -> FadeSummary:
    """Apply what is correct for this hardware, and say why the rest of FADE is not done.

    As in FADE, the program need not have imported torch.

    Raises:
        ImportError: torch is not installed.
    """
    importlib.import_module("torch")
    refused = {
        f"{name}={os.environ[name]}": why for name, why in REFUSED.items() if name in os.environ
    }
    return FadeSummary(
        json.loads(os.environ.get(SETTINGS_VARIABLE, "{}")), refused, _apply_with_redkiln()
    )


def get_corrected_device_properties(device: int | None = None) -> Any:
    """Return a GPU's properties, which HIP reports correctly; nothing in them is replaced.

    Args:
        device: Index of the GPU; the first one by default.

    Raises:
        RuntimeError: torch opens no GPU.
    """
    torch = importlib.import_module("torch")
    apply_fade_patches()
    return torch.cuda.get_device_properties(device or 0)


def test_fade_effectiveness() -> None:
    """Print the first GPU's numbers, and what is done instead of FADE's changes."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        sys.stdout.write("torch opens no GPU. `redkiln doctor` says why.\n")
        return
    properties = get_corrected_device_properties(0)
    sys.stdout.write(
        f"GPU: {properties.name}\n"
        f"Multiprocessors: {properties.multi_processor_count}\n"
        f"Lanes of a wave: {properties.warp_size}\n\n{apply_fade_patches()}\n"
    )


test_fade_effectiveness.__test__ = False  # type: ignore[attr-defined]  # pytest must not run it


def _apply_with_redkiln() -> str:
    """Return Redkiln's own report; empty if this interpreter lacks its libraries."""
    sys.path.append(str(SOURCE_DIR))
    try:
        from worker.hardware.fade import apply_fade_patches as apply
    except (ImportError, SyntaxError):  # its libraries are missing, or its Python is too old
        return ""
    finally:
        sys.path.remove(str(SOURCE_DIR))
    return str(apply())


if __name__ == "__main__":
    test_fade_effectiveness()
