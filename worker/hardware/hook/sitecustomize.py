"""Sets switches of torch right after a program has imported it, whoever wrote the program.

A script of a job is asked, too, whether it uses its GPU: by torch's own counters, in a thread that
ends with the first use.

Python runs this file at its start where `python -m worker.hardware run` has put the folder on
PYTHONPATH. It runs in the program's interpreter, so it needs the standard library alone; and it
goes on to the `sitecustomize` that would have run without it.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

VARIABLE = "REDKILN_TORCH_SETTINGS"
WATCH_VARIABLE = "REDKILN_WATCH_GPU"
"""Names the file where torch and its first use of a GPU are told."""
WATCH_SECONDS = 2.0
HERE = Path(__file__).resolve().parent


class AfterTorch(importlib.abc.MetaPathFinder):
    """Lets torch be found as ever, and adds a step to the end of its import."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._is_asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Torch's own spec, whose loader ends with our step; nothing for any other module.

        Programs ask for it before they import torch, or do not import it at all: each one that is
        given away has the step.
        """
        del path, target
        if fullname != "torch" or self._is_asking:
            return None
        self._is_asking = True  # the others are asked through the same list, where we stand first
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self._is_asking = False
        loader = spec.loader if spec else None
        if loader is not None:
            own = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                own(module)
                _apply(module, self._settings)

            try:
                loader.exec_module = exec_module  # type: ignore[method-assign]
            except AttributeError as error:
                sys.stderr.write(f"redkiln: torch's switches stay as they are: {error}\n")
        return spec


def _apply(torch: ModuleType, settings: dict[str, str]) -> None:
    path = os.environ.get(WATCH_VARIABLE)
    if path:
        threading.Thread(target=_watch, args=(torch, path), daemon=True).start()
    door = _load("redkiln_torch_settings", HERE.parent / "torch_settings.py")
    _, problems = door.apply_settings(torch, settings)
    for name, problem in problems.items():
        sys.stderr.write(f"redkiln: {name}: {problem}\n")


def _watch(torch: ModuleType, path: str) -> None:
    """Tell that torch is there, and of the first memory that it takes of a GPU."""
    _tell(path, gpu_bytes=0)
    while True:
        time.sleep(WATCH_SECONDS)
        cuda = getattr(torch, "cuda", None)  # it may still be imported
        if cuda is None or not cuda.is_initialized():
            continue
        used = sum(cuda.max_memory_allocated(place) for place in range(cuda.device_count()))
        if used:
            _tell(path, gpu_bytes=used)
            return


def _tell(path: str, *, gpu_bytes: int) -> None:
    with open(path, "a") as file:  # noqa: PTH123  the standard library's smallest part
        file.write(json.dumps({"gpu_bytes": gpu_bytes}) + "\n")


def _load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run_the_next() -> None:
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if VARIABLE in os.environ or WATCH_VARIABLE in os.environ:
    sys.meta_path.insert(0, AfterTorch(json.loads(os.environ.get(VARIABLE, "{}"))))
_run_the_next()
