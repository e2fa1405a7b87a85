import os
import subprocess
import sys
from pathlib import Path

import pytest

from redkiln.tasks.script import Limits
from worker.process.failed import TrainingFailed
from worker.script.bounds.bounds import Bounds, find_gap, has_landlock, refuse_gap
from worker.script.program.caches import build_caches

needs_landlock = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")


@pytest.fixture
def shared(tmp_path):
    """A worker's own caches."""
    kernels, hub = tmp_path / "kernels" / "slot", tmp_path / "hf" / "hub"
    (kernels / "triton").mkdir(parents=True)
    (kernels / "tunableop0.csv").write_text("chosen")
    model = hub / "models--a--b"
    for name in ("blobs", "refs", "snapshots/c0"):
        (model / name).mkdir(parents=True)
    (tmp_path / "hf" / "token").write_text("hf_secret")
    (model / "blobs" / "1").write_text("weights")
    (model / "refs" / "main").write_text("c0")
    (model / "snapshots" / "c0" / "config.json").symlink_to("../../blobs/1")
    return {
        "TRITON_CACHE_DIR": str(kernels / "triton"),
        "PYTORCH_TUNABLEOP_FILENAME": str(kernels / "tunableop%d.csv"),
        "HF_HOME": str(tmp_path / "hf"),
    }


@pytest.fixture
def run(shared, paths, tmp_path):
    def run(code, **environ):
        caches = build_caches(shared, paths=paths, cache_dir=tmp_path / "cache")
        bounds = Bounds(paths, Limits(), readable=caches.readable, writable=caches.writable)
        return subprocess.run(
            bounds.command([sys.executable, "-c", code]),
            env={**os.environ, **caches.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_kernels_are_kept_in_folders_that_only_scripts_use(run, shared, tmp_path):
    code = "import os; open(os.environ['TRITON_CACHE_DIR'] + '/k.so', 'w').write('x')"
    assert run(code).returncode == 0
    assert "k.so" not in [path.name for path in Path(shared["TRITON_CACHE_DIR"]).iterdir()]
    again = "import os; print(os.listdir(os.environ['TRITON_CACHE_DIR']))"
    assert run(again).stdout == "['k.so']\n"


def test_tunings_are_copied_and_a_planted_link_is_replaced(run, tmp_path):
    victim = tmp_path / "worker.key"
    victim.write_text("rk_secret")
    code = "import os; name = os.environ['PYTORCH_TUNABLEOP_FILENAME'].replace('%d', '0'); "
    assert run(code + "print(open(name).read())").stdout == "chosen\n"
    assert run(code + f"os.remove(name); os.symlink({str(victim)!r}, name)").returncode == 0
    assert run(code + "print(open(name).read())").stdout == "chosen\n"
    assert victim.read_text() == "rk_secret"


@needs_landlock
def test_the_workers_kernels_and_token_are_not_accessible(run, shared, tmp_path):
    for path in (f"{shared['TRITON_CACHE_DIR']}/k.so", f"{shared['HF_HOME']}/hub/x"):
        assert "PermissionError" in run(f"open({path!r}, 'w')").stderr
    assert "PermissionError" in run(f"open({shared['HF_HOME'] + '/token'!r})").stderr


@needs_landlock
def test_a_variable_of_the_spec_gives_no_access_to_a_folder(run, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "worker.key").write_text("rk_secret")
    code = f"open({str(tmp_path / 'keys' / 'worker.key')!r})"
    done = run(code, TRITON_CACHE_DIR=str(tmp_path / "keys"), HF_HOME=str(tmp_path / "keys"))
    assert "PermissionError" in done.stderr


def test_existing_models_are_linked_and_new_files_can_be_added(run):
    code = (
        "import os; home = os.environ['HF_HOME'] + '/hub/models--a--b/'; "
        "print(open(home + 'snapshots/c0/config.json').read()); "
        "open(home + 'refs/main', 'w').write('c1'); "
        "open(home + 'blobs/2', 'w').write('more')"
    )
    done = run(code)
    assert done.stdout == "weights\n", done.stderr
    assert done.returncode == 0


def test_missing_kernel_features_are_described():
    assert "no Landlock" in find_gap(0)
    assert "signals" in find_gap(4)
    assert find_gap(6) is None


@pytest.mark.parametrize(
    ("wanted", "version", "words"),
    [
        ("any", 0, None),
        ("files", 0, "REDKILN_SCRIPT_CONFINEMENT=files.*no Landlock"),
        ("files", 4, None),
        ("signals", 4, "REDKILN_SCRIPT_CONFINEMENT=signals.*Linux 6.12 and later"),
        ("signals", 6, None),
    ],
)
def test_a_kernel_without_the_required_features_runs_no_script(wanted, version, words):
    if words is None:
        refuse_gap(wanted, version=version)
        return
    with pytest.raises(TrainingFailed, match=words):
        refuse_gap(wanted, version=version)
