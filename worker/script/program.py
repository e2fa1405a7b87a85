"""How a script is started: its command, its environment, its data."""

import os
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from redkiln.datasets import BUILTIN_TABLES
from redkiln.tasks.script import ScriptSpec, fill_in
from worker.hardware import hook
from worker.hardware.hook.sitecustomize import VARIABLE as SETTINGS_VARIABLE
from worker.hardware.hook.sitecustomize import WATCH_VARIABLE
from worker.hardware.masks import MASKS
from worker.jobdir import SCRIPT_CACHE_BYTES, LocalDataset
from worker.script.heartbeat import Heartbeat
from worker.script.kept import PARTIAL, drop_unused, hold_folder
from worker.script.packages import Environment
from worker.script.places import Places, shorten
from worker.script.unpack import unpack
from worker.script.variables import is_passed_on

HOOK_DIR = Path(hook.__file__).parent
NUM_KEPT = 10
"""Unpacked data sets on a worker; those in use are kept beyond."""


@dataclass(frozen=True)
class Program:
    """What is started.

    Attributes:
        words: the command line.
        environ: all of its environment.
    """

    words: list[str]
    environ: dict[str, str]


def build_program(
    spec: ScriptSpec,
    *,
    places: Places,
    environment: Environment,
    data: Path | None,
    is_resumed: bool,
    num_gpus: int,
    torch_settings: str | None,
    environ: Mapping[str, str],
) -> Program:
    """The command line and the environment of a script.

    Args:
        spec: of the job.
        places: its folders.
        environment: where its Python is.
        data: what stands for {data}.
        is_resumed: whether its checkpoints are there.
        num_gpus: that it has; more than one are a process each.
        torch_settings: switches of torch for this hardware, as the hook reads them.
        environ: the worker's own, in which the hardware's patches are set.
    """
    named = {
        "data": "" if data is None else str(data),
        "out": str(places.out_dir),
        "checkpoints": str(places.checkpoints_dir),
    }
    words = [fill_in(word, named) for word in spec.script.command]
    if num_gpus > 1:
        launcher = ["python", "-m", "torch.distributed.run", "--standalone"]
        words = [*launcher, "--nproc-per-node", str(num_gpus), "--no-python", *words]
    kept = {name: value for name, value in environ.items() if is_passed_on(name)}
    masks = {name: environ[name] for name in MASKS if name in environ}
    watched = spec.resources.device == "gpu" and spec.script.guard.action != "off"
    has_hook = torch_settings is not None or watched
    their_path = [spec.script.env["PYTHONPATH"]] if spec.script.env.get("PYTHONPATH") else []
    own = {
        "HOME": str(places.home_dir),
        "TMPDIR": str(shorten(places.temporary_dir)),
        "PATH": os.pathsep.join([str(environment.bin_dir), environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(
            [str(places.lib_dir), *([str(HOOK_DIR)] * has_hook), *their_path]
        ),
        "PYTHONUNBUFFERED": "1",
        "REDKILN_DATA": named["data"],
        "REDKILN_OUT": named["out"],
        "REDKILN_CHECKPOINTS": named["checkpoints"],
        "REDKILN_RESUME": "1" if is_resumed else "0",
        "REDKILN_EVENTS": str(places.events_path),
    }
    if num_gpus > 1:
        # From SIGTERM on torchrun lets its processes live for so long; we end them sooner.
        own["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(ceil(spec.script.grace_seconds) + 1)
    if torch_settings is not None:
        own[SETTINGS_VARIABLE] = torch_settings
    if watched:
        own[WATCH_VARIABLE] = str(places.events_path)
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
    """What a script reads its data from: a folder, or the one file that the data set is.

    An archive is unpacked once and kept as long as it is used now and then.

    Args:
        dataset: of the job.
        cache_dir: of the worker's jobs.
        say: told now and then that it is being unpacked.
        max_bytes: of all unpacked sets that no job uses.

    Raises:
        TrainingFailed: it is damaged, or a built-in set is not known here.
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


def _open_builtin(dataset: LocalDataset, *, cache_dir: Path) -> Path:
    # These make arrays and tables, which most scripts' supervisors never do.
    from worker.trainer.images.builtins import open_builtin
    from worker.trainer.tables.builtins import open_builtin_table

    name = dataset.name.removeprefix("builtin:")
    if name in BUILTIN_TABLES:
        return open_builtin_table(name, cache_dir=cache_dir)
    files_dir = None if dataset.path is None else Path(dataset.path)
    return open_builtin(name, cache_dir=cache_dir, files_dir=files_dir)


def _is_archive(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        starts_as_zip = file.read(2) == b"PK"
    if starts_as_zip:
        # An .npz is a zip, too, which programs read as it is.
        return zipfile.is_zipfile(path) and not _is_npz(path)
    return tarfile.is_tarfile(path)


def _is_npz(path: Path) -> bool:
    with zipfile.ZipFile(path) as packed:
        names = packed.namelist()
    return bool(names) and all(name.endswith(".npy") for name in names)


def _unpack(archive: Path, folder: Path, heartbeat: Heartbeat) -> None:
    partial = folder.with_name(folder.name + PARTIAL)
    partial.mkdir()
    unpack(archive, partial, what="data set", beat=heartbeat.beat)
    partial.rename(folder)
