"""How a script is started: its command, environment and data."""

import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from redkiln.datasets import BUILTIN_TABLES
from redkiln.failure import FailureCode
from redkiln.tasks.script import ScriptSpec, fill_in
from worker.beneath import open_folder_beneath
from worker.hardware import hook
from worker.hardware.hook.sitecustomize import VARIABLE as SETTINGS_VARIABLE
from worker.hardware.hook.sitecustomize import WATCH_VARIABLE
from worker.hardware.masks import MASKS
from worker.jobdir import SCRIPT_CACHE_BYTES, LocalDataset
from worker.process.failed import TrainingFailed
from worker.script.heartbeat import Heartbeat
from worker.script.program.kept import PARTIAL, drop_unused, hold_folder
from worker.script.program.packages import Environment
from worker.script.program.paths import ScriptPaths, shorten
from worker.script.program.variables import is_passed_on
from worker.unpack import is_archive, unpack

HOOK_DIR = Path(hook.__file__).parent
NUM_KEPT = 10
"""Unpacked data sets to keep on a worker; data sets in use are always kept."""


@dataclass(frozen=True)
class Program:
    """A program to start.

    Attributes:
        words: Its command line.
        environ: Its complete environment.
    """

    words: list[str]
    environ: dict[str, str]


def build_program(
    spec: ScriptSpec,
    *,
    paths: ScriptPaths,
    environment: Environment,
    data: Path | None,
    is_resumed: bool,
    num_gpus: int,
    torch_settings: str | None,
    environ: Mapping[str, str],
) -> Program:
    """Build the command line and the environment of a script.

    Args:
        spec: The job's spec.
        paths: The script's folders.
        environment: The Python environment to use.
        data: Path that replaces {data}.
        is_resumed: Whether checkpoints were restored.
        num_gpus: Number of leased GPUs; with more than one, each gets its own process.
        torch_settings: Torch's switches for this hardware, in the form that the hook reads.
        environ: The worker's environment, with the hardware's patches.
    """
    named = {
        "data": "" if data is None else str(data),
        "out": str(paths.out_dir),
        "checkpoints": str(paths.checkpoints_dir),
    }
    words = [fill_in(word, named) for word in spec.script.command]
    if num_gpus > 1:
        launcher = ["python", "-m", "torch.distributed.run", "--standalone"]
        words = [*launcher, "--nproc-per-node", str(num_gpus), "--no-python", *words]
    kept = {name: value for name, value in environ.items() if is_passed_on(name)}
    masks = {name: environ[name] for name in MASKS if name in environ}
    watched = spec.resources.device == "gpu" and spec.script.guard.action != "off"
    their_path = [spec.script.env["PYTHONPATH"]] if spec.script.env.get("PYTHONPATH") else []
    own = {
        "HOME": str(paths.home_dir),
        "TMPDIR": str(shorten(paths.temporary_dir)),
        "PATH": os.pathsep.join([str(environment.bin_dir), environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(paths.lib_dir), str(HOOK_DIR), *their_path]),
        "PYTHONUNBUFFERED": "1",
        "REDKILN_DATA": named["data"],
        "REDKILN_OUT": named["out"],
        "REDKILN_CHECKPOINTS": named["checkpoints"],
        "REDKILN_RESUME": "1" if is_resumed else "0",
        "REDKILN_EVENTS": str(paths.events_path),
    }
    if num_gpus > 1:
        # torchrun gives its processes this long after SIGTERM; the supervisor ends them sooner.
        own["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(ceil(spec.script.grace_seconds) + 1)
    if torch_settings is not None:
        own[SETTINGS_VARIABLE] = torch_settings
    if watched:
        own[WATCH_VARIABLE] = str(paths.events_path)
    if environment.folder is not None:
        own["VIRTUAL_ENV"] = str(environment.folder)
    return Program(words, {**kept, **spec.script.env, **masks, **own})


def open_data(
    dataset: LocalDataset | None,
    *,
    cache_dir: Path,
    say: Callable[[str], None],
    max_bytes: int = SCRIPT_CACHE_BYTES,
) -> Path | None:
    """Return the path from which a script reads its data: a folder, or a single file.

    An archive is unpacked once and kept for as long as jobs use it regularly.

    Args:
        dataset: The job's data set.
        cache_dir: Cache folder of the worker's jobs.
        say: Receives a message at intervals while the data set is unpacked.
        max_bytes: Largest size of all unpacked data sets that no job uses.

    Raises:
        TrainingFailed: The archive is damaged, or this worker has no such built-in set.
    """
    if dataset is None:
        return None
    if dataset.kind == "builtin":
        return _open_builtin(dataset, cache_dir=cache_dir)
    source = dataset.path or dataset.index_path
    assert source is not None
    path = Path(source)
    if dataset.kind == "folder" or not _is_archive(path):
        return path
    folder = cache_dir / "unpacked" / dataset.fingerprint[:32]
    hold_folder(
        folder,
        make=lambda folder: _unpack(path, folder, Heartbeat(say, "unpacking the data set")),
        is_whole=Path.is_dir,
        beat=Heartbeat(say, "waiting for another job that unpacks the data set").beat,
    )
    drop_unused(folder.parent, num_kept=NUM_KEPT, max_bytes=max_bytes)
    return folder


def hold_registered(dataset: LocalDataset | None) -> int | None:
    """Open a folder that is used in place; None for any other data set.

    The script may read what is below the descriptor, whatever its path leads to later.

    Raises:
        TrainingFailed: The folder is no longer the one that the agent has checked.
    """
    if dataset is None or dataset.root is None or dataset.path is None:
        return None
    try:
        below = Path(dataset.path).relative_to(dataset.root)
        folder = open_folder_beneath(Path(dataset.root), str(below))
        status = os.fstat(folder)
    except OSError as error:
        raise _was_replaced(dataset, error.strerror) from error
    if (status.st_dev, status.st_ino) != dataset.identity:
        os.close(folder)
        raise _was_replaced(dataset, "it is another folder now")
    return folder


def _was_replaced(dataset: LocalDataset, why: str | None) -> TrainingFailed:
    message = (
        f"the folder {dataset.path} of data set {dataset.name} was replaced while the job was "
        f"prepared ({why}). Put it back, or register it again, and submit the job again"
    )
    return TrainingFailed(FailureCode.DATASET_UNAVAILABLE, message)


def _open_builtin(dataset: LocalDataset, *, cache_dir: Path) -> Path:
    # Imported here: they import NumPy and pyarrow, which most scripts' supervisors never need.
    from worker.trainer.images.sources.builtins import open_builtin
    from worker.trainer.tables.builtins import open_builtin_table

    name = dataset.name.removeprefix("builtin:")
    if name in BUILTIN_TABLES:
        return open_builtin_table(name, cache_dir=cache_dir)
    files_dir = None if dataset.path is None else Path(dataset.path)
    return open_builtin(name, cache_dir=cache_dir, files_dir=files_dir)


def _is_archive(path: Path) -> bool:
    # An .npz file is a zip, too, but programs read it without unpacking.
    return path.is_file() and is_archive(path) and not _is_npz(path)


def _is_npz(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as packed:
            names = packed.namelist()
    except zipfile.BadZipFile:  # a tar, or a damaged zip, which is reported when it is unpacked
        return False
    return bool(names) and all(name.endswith(".npy") for name in names)


def _unpack(archive: Path, folder: Path, heartbeat: Heartbeat) -> None:
    partial = folder.with_name(folder.name + PARTIAL)
    partial.mkdir()
    unpack(archive, partial, what="data set", beat=heartbeat.beat)
    partial.rename(folder)
