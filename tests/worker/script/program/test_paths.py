import os
import subprocess
import sys

from redkiln.tasks.script import Limits
from worker.script.bounds.bounds import Bounds


def test_the_onnx_checker_runs_within_the_scripts_limits(paths):
    (paths.out_dir / "m.onnx").write_bytes(b"no model")
    paths.prepare_tools()
    own = [sys.executable, "-m", "worker.script.results.onnx_check", str(paths.out_dir / "m.onnx")]
    environ = {**os.environ, "PYTHONPATH": str(paths.own_lib_dir)}
    command = Bounds(paths, Limits()).command(own)
    done = subprocess.run(
        command, cwd="/", env=environ, capture_output=True, text=True, check=False
    )
    assert "cannot be loaded" in done.stdout, done.stderr


def test_preparing_twice_changes_nothing(paths):
    before = sorted(path.name for path in paths.root.rglob("*"))
    paths.prepare()
    assert sorted(path.name for path in paths.root.rglob("*")) == before
