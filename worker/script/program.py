"""How a script is started: its command, its environment, its data."""

import fcntl
import os
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from redkiln.tasks.script import RESERVED_PREFIX, ScriptSpec, fill_in
from worker.hardware import hook
from worker.hardware.hook.sitecustomize import VARIABLE as SETTINGS_VARIABLE
from worker.hardware.hook.sitecustomize import WATCH_VARIABLE
from worker.jobdir import LocalDataset
from worker.script.packages import Environment
from worker.script.places import Places
from worker.script.unpack import unpack

HOOK_DIR = Path(hook.__file__).parent
SECRETS = ("HF_TOKEN",)
"""A worker's own, which a trainer may use and a script may not."""


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
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(RESERVED_PREFIX) and name not in SECRETS
    }
    watched = spec.resources.device == "gpu" and spec.script.guard.action != "off"
    has_hook = torch_settings is not None or watched
    own = {
        "HOME": str(places.home_dir),
        "TMPDIR": str(places.temporary_dir),
        "PATH": os.pathsep.join([str(environment.bin_dir), environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([str(places.lib_dir), *([str(HOOK_DIR)] * has_hook)]),
        "PYTHONUNBUFFERED": "1",
        "REDKILN_DATA": named["data"],
        "REDKILN_OUT": named["out"],
        "REDKILN_CHECKPOINTS": named["checkpoints"],
        "REDKILN_RESUME": "1" if is_resumed else "0",
        "REDKILN_EVENTS": str(places.events_path),
    }
    if torch_settings is not None:
        own[SETTINGS_VARIABLE] = torch_settings
    if watched:
        own[WATCH_VARIABLE] = str(places.events_path)
    if environment.folder is not None:
        own["VIRTUAL_ENV"] = str(environment.folder)
    return Program(words, {**kept, **spec.script.env, **own})


def open_data(dataset: LocalDataset | None, *, cache_dir: Path) -> Path | None:
    """What a script reads its data from: a folder, or the one file that the data set is.

    An archive is unpacked once and kept.

    Raises:
        TrainingFailed: it is damaged, or a built-in set is not known here.
    """
    if dataset is None:
        return None
    if dataset.kind == "builtin":
        # It makes arrays, which most scripts' supervisors never do.
        from worker.trainer.builtins import open_builtin

        return open_builtin(dataset.name.removeprefix("builtin:"), cache_dir=cache_dir)
    source = dataset.path or dataset.index_path
    assert source is not None
    path = Path(source)
    if dataset.kind == "folder" or not _is_archive(path):
        return path
    return _unpack_once(path, cache_dir / "unpacked" / dataset.fingerprint[:32])


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


def _unpack_once(archive: Path, folder: Path) -> Path:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        unpack(archive, partial, what="data set")
        partial.rename(folder)
    return folder
