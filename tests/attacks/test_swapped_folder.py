"""A folder of data is registered and validated, and then something else is put in its place."""

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from redkiln.datasets import stamp_folder
from redkiln.protocol import DatasetRef
from redkiln.tasks.script import Limits
from worker.agent.data.registered import NotInPlace, describe_registered, open_registered
from worker.process.failed import TrainingFailed
from worker.script.bounds.bounds import Bounds, has_landlock
from worker.script.program.paths import ScriptPaths
from worker.script.program.program import hold_registered


@pytest.fixture
def root(tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "admin.key").write_text("secret")
    folder = tmp_path / "data" / "houses"
    folder.mkdir(parents=True)
    (folder / "houses.csv").write_text("a,b\n1,2\n")
    return tmp_path / "data"


@pytest.fixture
def ref(root):
    known = {"id": "ds_1", "name": "houses", "kind": "folder", "task": "tabular-regression"}
    return DatasetRef(**known, path=str(root / "houses"), root=str(root))


def swap(root):
    (root / "houses").rename(root / "before")
    (root / "houses").symlink_to(root.parent / "keys")


def read(bounds, path):
    words = [sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", str(path)]
    command = bounds.command(words)
    return subprocess.run(
        command, capture_output=True, text=True, check=False, pass_fds=bounds.descriptors
    )


def test_a_worker_opens_no_folder_behind_a_link(root, ref):
    swap(root)
    with pytest.raises(NotInPlace, match="its path contains a link"), open_registered(ref):
        pass


def test_a_worker_opens_no_folder_outside_the_allowed_ones(root, ref):
    outside = ref.model_copy(update={"path": str(root.parent / "keys")})
    without = ref.model_copy(update={"root": None})
    for refused in (outside, without):
        with pytest.raises(NotInPlace), open_registered(refused):
            pass


def test_a_folder_that_is_swapped_before_the_script_starts_is_refused(root, ref):
    with open_registered(ref) as folder:
        dataset = describe_registered(ref, folder, fingerprint="f")
    swap(root)
    with pytest.raises(TrainingFailed, match="was replaced"):
        hold_registered(dataset)
    (root / "houses").unlink()
    shutil.copytree(root / "before", root / "houses")
    with pytest.raises(TrainingFailed, match="it is another folder now"):
        hold_registered(dataset)


@pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
def test_a_script_cannot_read_a_folder_that_is_swapped_while_it_runs(root, ref, tmp_path):
    paths = ScriptPaths(tmp_path / "script")
    paths.prepare()
    with open_registered(ref) as folder:
        dataset = describe_registered(ref, folder, fingerprint="f")
    with ExitStack() as stack:
        held = hold_registered(dataset)
        stack.callback(os.close, held)
        bounds = Bounds(paths, Limits(), descriptors=(held,))
        assert read(bounds, f"{dataset.path}/houses.csv").stdout.startswith("a,b")
        swap(root)
        assert "PermissionError" in read(bounds, f"{dataset.path}/admin.key").stderr
        assert read(bounds, root / "before" / "houses.csv").stdout.startswith("a,b")


def test_a_changed_file_changes_the_stamp_of_its_folder(root):
    def stamp():
        place = os.open(root, os.O_RDONLY)
        try:
            return stamp_folder(place)
        finally:
            os.close(place)

    first = stamp()
    (root / "houses" / ".cache").write_text("not data")
    assert stamp() == first
    path = Path(root / "houses" / "houses.csv")
    path.write_text("a,b\n3,4\n")
    os.utime(path, ns=(1, 1))
    assert stamp() != first
