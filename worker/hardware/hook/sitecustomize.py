"""Sets switches of torch right after any program has imported it.

For a job's script it also reports whether the GPU is used: a thread reads torch's own counters and
ends after the first use.

Python runs this file at its start if `python -m worker.hardware run` has put its folder on
PYTHONPATH. It runs in the program's interpreter, so it needs only the standard library, and it then
runs the `sitecustomize` that would have run otherwise.
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
"""Names the file to which torch's import and its first use of a GPU are reported."""
WATCH_SECONDS = 2.0
HERE = Path(__file__).resolve().parent


class AfterTorch(importlib.abc.MetaPathFinder):
    """Finds torch as usual, and adds a step to the end of its import."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings
        self._is_asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return torch's own spec with our step added to its loader; None for any other module.

        Programs may ask for the spec without importing torch, so the step is added to every spec
        that is returned.
        """
        del path, target
        if fullname != "torch" or self._is_asking:
            return None
        self._is_asking = True  # the search below starts with this finder again
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
                sys.stderr.write(f"redkiln: torch's settings are unchanged: {error}\n")
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
    """Report that torch was imported, and the first GPU memory that it allocates."""
    _report(path, gpu_bytes=0)
    while True:
        time.sleep(WATCH_SECONDS)
        cuda = getattr(torch, "cuda", None)  # it may still be imported
        if cuda is None or not cuda.is_initialized():
            continue
        used = sum(cuda.max_memory_allocated(place) for place in range(cuda.device_count()))
        if used:
            _report(path, gpu_bytes=used)
            return


def _report(path: str, *, gpu_bytes: int) -> None:
    with open(path, "a") as file:  # noqa: PTH123  # pathlib is not needed for this
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
