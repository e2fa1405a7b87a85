import os
import socket
from pathlib import Path

import pytest
from pyarrow import parquet

from redkiln.tasks.script import SET_BY_WORKER, ScriptSpec
from worker.hardware.masks import MASKS
from worker.jobdir import LocalDataset
from worker.script.program import paths as places_module
from worker.script.program.packages import Environment
from worker.script.program.paths import MAX_PATH_BYTES, ScriptPaths
from worker.script.program.program import HOOK_DIR, build_program, open_data
from worker.trainer.images.sources import builtins


@pytest.fixture
def build(paths):
    def build(*, env=None, environ=None, where=paths):
        script = {"command": ["python"], "env": env or {}}
        return build_program(
            ScriptSpec.model_validate({"task": "script", "script": script}),
            paths=where,
            environment=Environment(),
            data=None,
            is_resumed=False,
            num_gpus=0,
            torch_settings=None,
            environ={"PATH": "/usr/bin", **(environ or {})},
        ).environ

    return build


def test_a_spec_cannot_set_a_gpu_mask(build):
    assert set(MASKS) <= set(SET_BY_WORKER)
    assert build(environ={"CUDA_VISIBLE_DEVICES": "3"})["CUDA_VISIBLE_DEVICES"] == "3"


def test_the_users_pythonpath_comes_after_the_workers(build, paths):
    wanted = os.pathsep.join([str(paths.lib_dir), str(HOOK_DIR), "src"])
    assert build(env={"PYTHONPATH": "src"})["PYTHONPATH"] == wanted


def test_folders_of_the_workers_user_are_not_passed_on(build):
    environ = build(environ={"XDG_CACHE_HOME": "/worker/cache"}, env={"XDG_DATA_HOME": "data"})
    assert "XDG_CACHE_HOME" not in environ
    assert environ["XDG_DATA_HOME"] == "data"


def test_sockets_fit_into_the_temporary_folder(build, tmp_path, monkeypatch):
    # What pytest makes of `tmp_path` is too long for a socket already.
    monkeypatch.setattr(places_module.tempfile, "gettempdir", lambda: "/tmp")
    paths = ScriptPaths(tmp_path / ("deep" * 15) / "script")
    paths.prepare()
    folder = build(where=paths)["TMPDIR"]
    assert len(folder) <= MAX_PATH_BYTES
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/pymp-xxxxxxxx-listener-xxxxxxxx")
    assert [path.is_socket() for path in paths.temporary_dir.iterdir()] == [True]
    Path(folder).unlink()


def test_a_short_link_is_removed_once_its_folder_is_gone(tmp_path, monkeypatch):
    links_dir = tmp_path / "t"
    links_dir.mkdir()
    monkeypatch.setattr(places_module.tempfile, "gettempdir", lambda: str(links_dir))
    folder = tmp_path / ("deep" * 15)
    folder.mkdir()
    link = places_module.shorten(folder)
    places_module.shorten(tmp_path)
    assert list(links_dir.iterdir()) == [link]
    folder.rmdir()
    places_module.shorten(tmp_path)
    assert not list(links_dir.iterdir())


def test_a_built_in_table_is_one_file(tmp_path):
    dataset = LocalDataset(name="builtin:iris", kind="builtin", fingerprint="iris")
    path = open_data(dataset, cache_dir=tmp_path, say=print)
    assert path.name == "iris.parquet"
    assert parquet.read_table(path).num_rows == 150


def test_a_public_set_uses_the_workers_files(tmp_path, monkeypatch):
    asked = {}

    def make(name, *, cache_dir, files_dir=None):
        asked[name] = files_dir
        return cache_dir / name

    monkeypatch.setattr(builtins, "open_builtin", make)
    dataset = LocalDataset(
        name="builtin:mnist", kind="builtin", path="/worker/datasets/mnist", fingerprint="mnist"
    )
    assert open_data(dataset, cache_dir=tmp_path, say=print) == tmp_path / "mnist"
    assert asked == {"mnist": Path("/worker/datasets/mnist")}
