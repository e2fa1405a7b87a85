"""Switches of torch, set by their full names and restored afterwards.

A program's own interpreter loads this file by its path (`hook/sitecustomize.py`), so it needs only
the standard library.
"""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

Undo = Callable[[], None]

GETTERS = {
    "torch.backends.cuda.enable_flash_sdp": "flash_sdp_enabled",
    "torch.backends.cuda.enable_mem_efficient_sdp": "mem_efficient_sdp_enabled",
    "torch.backends.cuda.enable_math_sdp": "math_sdp_enabled",
}
"""Switches that are functions, each with the function that returns its state."""
MAX_PRODUCT_ROWS = "redkiln.max_product_rows"
"""Not a switch of torch: larger products are computed in blocks (split_products.py)."""
DEFAULTS = {"torch.backends.cuda.preferred_blas_library": "default"}
"""Switches that are functions, with the value that restores them. Their state is not read: on ROCm
reading it opens every GPU, and then variables that a program sets after its imports have no effect.

Source: pytorch aten/src/ATen/Context.cpp, blasPreferredBackend.
"""


def apply_settings(torch: ModuleType, settings: Mapping[str, str]) -> tuple[Undo, dict[str, str]]:
    """Apply every setting that this torch supports.

    Returns:
        A function that restores everything, and the reasons for the settings that failed, by name.
    """
    undone: list[Undo] = []
    problems: dict[str, str] = {}
    for name, value in settings.items():
        try:
            undone.append(_set(torch, name, _parse(value)))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            problems[name] = f"this torch does not support it: {error}"

    def undo() -> None:
        for one in reversed(undone):
            one()

    return undo, problems


def _set(torch: ModuleType, name: str, value: str | bool) -> Undo:
    if name == MAX_PRODUCT_ROWS:
        undo: Undo = _load_split().split_products(torch, max_rows=int(value))
        return undo
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


def _load_split() -> ModuleType:
    path = Path(__file__).with_name("split_products.py")
    spec = importlib.util.spec_from_file_location("redkiln_split_products", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _parse(value: str) -> str | bool:
    return {"True": True, "False": False}.get(value, value)
