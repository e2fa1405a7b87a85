"""Switches of torch, set by their full names and put back again.

A program's own interpreter loads this file by its path (`hook/sitecustomize.py`), so it needs
nothing but the standard library.
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

Undo = Callable[[], None]

GETTERS = {
    "torch.backends.cuda.enable_flash_sdp": "flash_sdp_enabled",
    "torch.backends.cuda.enable_mem_efficient_sdp": "mem_efficient_sdp_enabled",
    "torch.backends.cuda.enable_math_sdp": "math_sdp_enabled",
}
"""Switches that are functions, and beside each the one that tells its state."""
DEFAULTS = {"torch.backends.cuda.preferred_blas_library": "default"}
"""Switches that are functions, and what puts them back unasked: on ROCm the question for the state
opens every GPU, and with it the variables that a program sets after its imports come too late.

Source: pytorch aten/src/ATen/Context.cpp, blasPreferredBackend.
"""


def apply_settings(torch: ModuleType, settings: Mapping[str, str]) -> tuple[Undo, dict[str, str]]:
    """Set what can be set.

    Returns:
        What puts everything back, and why some could not be set, by name.
    """
    undone: list[Undo] = []
    problems: dict[str, str] = {}
    for name, value in settings.items():
        try:
            undone.append(_set(torch, name, _parse(value)))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            problems[name] = f"this torch cannot: {error}"

    def undo() -> None:
        for one in reversed(undone):
            one()

    return undo, problems


def _set(torch: ModuleType, name: str, value: str | bool) -> Undo:
    *path, last = name.split(".")[1:]
    owner: Any = torch
    for part in path:
        owner = getattr(owner, part)
    if name not in GETTERS | DEFAULTS:
        before = getattr(owner, last)
        setattr(owner, last, value)
        return lambda: setattr(owner, last, before)
    function = getattr(owner, last)
    state = DEFAULTS[name] if name in DEFAULTS else getattr(owner, GETTERS[name])()
    function(value)
    return lambda: function(state)


def _parse(value: str) -> str | bool:
    return {"True": True, "False": False}.get(value, value)
