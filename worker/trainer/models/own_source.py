"""A user's code, from the sent folder to a class or function, with errors that name the line.

The process that imports it is confined like a script (`worker.agent.children.own_code`).
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch

from redkiln.failure import FailureCode
from redkiln.nearest import suggest
from worker.process.failed import TrainingFailed
from worker.unpack import MAX_CODE_BYTES, unpack

FOLDER = "own-code"
MODULE = "redkiln_own_code"
"""Name under which the user's file is imported, so that it hides no package."""


def open_folder(bundle_path: str | None) -> Path:
    """Unpack the sent folder next to its archive, once, and return it.

    Raises:
        TrainingFailed: The archive is damaged or gone.
    """
    if bundle_path is None:
        raise refuse("the code of this job is gone; submit the job again", "/model/bundle")
    folder = _folder_of(bundle_path)
    if not folder.exists():
        partial = folder.with_name(f"{FOLDER}.partial")
        partial.mkdir(exist_ok=True)
        unpack(Path(bundle_path), partial, what="code bundle", max_bytes=MAX_CODE_BYTES)
        partial.rename(folder)
    return folder


@cache
def import_file(folder: Path, file: str) -> ModuleType:
    """Import a file of the folder, whose other files it may import.

    Raises:
        TrainingFailed: The file is missing, or its import fails.
    """
    path = folder / file
    if not path.is_file():
        names = [str(found.relative_to(folder)) for found in folder.rglob("*.py")]
        raise refuse(f"the sent folder has no file {file!r}{suggest(file, names)}", "/model/file")
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path[:0] = [str(path.parent)] if path.parent == folder else [str(path.parent), str(folder)]
    sys.modules[MODULE] = module
    with blaming(folder, f"{file} cannot be imported", "/model/file"):
        spec.loader.exec_module(module)
    return module


def find_class(module: ModuleType, name: str, *, file: str) -> type[torch.nn.Module]:
    """Return a class of the user's file.

    Raises:
        TrainingFailed: The name is unknown, or it is not a network.
    """
    found = getattr(module, name, None)
    if not inspect.isclass(found):
        classes = [key for key, value in vars(module).items() if _is_network(value)]
        raise refuse(f"{file} has no class {name!r}{suggest(name, classes)}", "/model/class")
    if not _is_network(found):
        raise refuse(f"{name} in {file} is not a subclass of torch.nn.Module", "/model/class")
    return cast("type[torch.nn.Module]", found)


def find_function(module: ModuleType, name: str, *, file: str, field: str) -> Callable[..., Any]:
    """Return a function of the user's file.

    Raises:
        TrainingFailed: The name is unknown.
    """
    found = getattr(module, name, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        message = f"{file} has no function {name!r}{suggest(name, known)}"
        raise refuse(message, f"/model/{field}")
    function: Callable[..., Any] = found
    return function


@contextmanager
def blaming(folder: Path, what: str, pointer: str) -> Iterator[None]:
    """Turn an error of the user's code into a refusal that names its file and line.

    Raises:
        TrainingFailed: The block failed. Memory that ran out and other refusals pass unchanged.
    """
    try:
        yield
    except Exception as error:
        if _is_known(error):
            raise
        place = locate(error, folder)
        where = "" if place is None else f" ({place})"
        raise refuse(f"{what}{where}: {type(error).__name__}: {error}"[:2000], pointer) from error


@contextmanager
def blaming_own_code(bundle_path: str | None) -> Iterator[None]:
    """Refuse a job whose own code fails while it trains or is exported, with file and line.

    Errors that do not come from that code pass unchanged, as do all errors of other jobs.

    Raises:
        TrainingFailed: The user's code failed.
    """
    try:
        yield
    except Exception as error:
        place = None if bundle_path is None else locate(error, _folder_of(bundle_path))
        if place is None or _is_known(error):
            raise
        message = f"your code failed ({place}): {type(error).__name__}: {error}"
        raise refuse(message[:2000], "/model/class") from error


def locate(error: BaseException, folder: Path) -> str | None:
    """Return the last place of an error in the user's files, as `net.py, line 12, in forward`."""
    if isinstance(error, SyntaxError) and error.filename:
        path = Path(error.filename)
        if path.is_relative_to(folder):
            return f"{path.relative_to(folder)}, line {error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder)
    ]
    if not frames:
        return None
    last = frames[-1]
    return f"{Path(last.filename).relative_to(folder)}, line {last.lineno}, in {last.name}"


def refuse(message: str, pointer: str) -> TrainingFailed:
    """Return the failure of a job whose code cannot be trained."""
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)


def _folder_of(bundle_path: str) -> Path:
    return Path(bundle_path).with_name(FOLDER)


def _is_known(error: Exception) -> bool:
    """Return whether an error already has its own explanation: a refusal, or no memory."""
    known = (TrainingFailed, torch.OutOfMemoryError, MemoryError)
    return isinstance(error, known) or "DefaultCPUAllocator" in str(error)


def _is_network(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, torch.nn.Module)
