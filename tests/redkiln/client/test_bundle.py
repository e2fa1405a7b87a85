import io
import os
import subprocess
import sys
import tarfile

import pytest

from redkiln.client.bundle import open_bundle
from redkiln.errors import PackingError


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "project"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "lib" / "model.py").write_text("x = 1\n")
    return folder


def names(bundle):
    with tarfile.open(fileobj=io.BytesIO(b"".join(bundle.package.chunks()))) as packed:
        return packed.getnames()


def left_out(bundle):
    return {item.path: item.reason for item in bundle.left_out}


def test_the_files_of_a_folder_go_in_sorted_by_name(folder):
    assert names(open_bundle(folder)) == ["lib/model.py", "train.py"]


def test_an_unchanged_folder_keeps_its_digest(folder):
    before = open_bundle(folder).package.digest()
    os.utime(folder / "train.py", (1, 1))
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "train.pyc").write_bytes(b"x")
    assert open_bundle(folder).package.digest() == before
    (folder / "train.py").write_text("print('bye')\n")
    assert open_bundle(folder).package.digest() != before


def test_a_file_that_the_output_is_redirected_to_is_left_out(folder):
    program = (
        "from pathlib import Path\n"
        "from redkiln.client.bundle import open_bundle\n"
        "print('starting', flush=True)\n"
        "print(open_bundle(Path()).left_out)\n"
        "print(open_bundle(Path()).package.digest())\n"
    )
    with (folder / "run.log").open("wb") as log:
        subprocess.run([sys.executable, "-c", program], cwd=folder, stdout=log, check=True)
    first, left_out, digest = (folder / "run.log").read_text().splitlines()
    assert (first, "run.log" in left_out) == ("starting", True)
    (folder / "run.log").unlink()
    assert open_bundle(folder).package.digest() == digest


def test_gitignore_is_applied_as_git_does(folder):
    (folder / ".gitignore").write_text("*.log\n!keep.log\n/data/\n")
    (folder / "lib" / ".gitignore").write_text("secret.py\n")
    for name in ("a.log", "keep.log", "lib/secret.py"):
        (folder / name).touch()
    (folder / "data").mkdir()
    (folder / "data" / "x").touch()
    bundle = open_bundle(folder)
    assert set(names(bundle)) == {
        ".gitignore", "keep.log", "lib/.gitignore", "lib/model.py", "train.py",
    }  # fmt: skip
    assert left_out(bundle) == {
        "a.log": "ignored by .gitignore",
        "data/": "ignored by .gitignore",
        "lib/secret.py": "ignored by lib/.gitignore",
    }


def test_repositories_environments_and_secrets_are_left_out(folder):
    for name in (".git", "env", "node_modules"):
        (folder / name).mkdir()
        (folder / name / "file").touch()
    (folder / "env" / "pyvenv.cfg").touch()
    (folder / ".env").write_text("KEY=1")
    bundle = open_bundle(folder)
    assert names(bundle) == ["lib/model.py", "train.py"]
    assert left_out(bundle) == {
        ".git/": "version control",
        ".env": "may contain secrets",
        "env/": "a virtual environment",
        "node_modules/": "installed packages",
    }


def test_links_within_the_folder_are_followed_and_others_are_left_out(folder, tmp_path):
    (tmp_path / "elsewhere.py").touch()
    (folder / "alias.py").symlink_to(folder / "train.py")
    (folder / "out.py").symlink_to(tmp_path / "elsewhere.py")
    (folder / "lib" / "loop").symlink_to(folder)
    bundle = open_bundle(folder)
    assert names(bundle) == ["alias.py", "lib/model.py", "train.py"]
    assert left_out(bundle) == {
        "out.py": "links out of the folder",
        "lib/loop/": "links to a folder that contains it",
    }


def test_a_program_stays_executable(folder):
    (folder / "train.py").chmod(0o755)
    content = b"".join(open_bundle(folder).package.chunks())
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        assert packed.getmember("train.py").mode == 0o755
        assert packed.getmember("lib/model.py").mode == 0o644


def test_too_large_a_folder_is_refused_with_its_largest_files(folder):
    (folder / "weights.bin").write_bytes(bytes(200_000))
    with pytest.raises(PackingError, match=r"weights\.bin \(0\.2 MiB\).*\.redkilnignore"):
        open_bundle(folder, limit_bytes=100_000)


def test_a_folder_without_files_is_refused(tmp_path):
    with pytest.raises(PackingError, match="has no files"):
        open_bundle(tmp_path)


def test_results_of_earlier_jobs_are_left_out(folder):
    before = open_bundle(folder).package.digest()
    for name in ("out/mine/model.onnx", "elsewhere/model.onnx", "here/model.onnx"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(b"x")
    (folder / "elsewhere" / "job.json").write_text('{"id": "job_1"}')
    (folder / ".here-redkiln").mkdir()  # as `redkiln run --local -o here` leaves it
    (folder / ".here-redkiln" / "log").touch()
    bundle = open_bundle(folder)
    assert bundle.package.digest() == before
    assert left_out(bundle) == {
        "out/": "results of jobs",
        "elsewhere/": "results of jobs",
        "here/": "results of jobs",
        ".here-redkiln/": "state of runs without the queue",
    }


def test_folders_that_only_look_like_results_are_included(folder):
    (folder / "lib" / "out").mkdir()
    (folder / "lib" / "out" / "layer.py").touch()
    (folder / "lib" / "job.json").write_text('{"id": 3, "cron": "daily"}')
    (folder / "out").mkdir()
    (folder / "out" / "code.py").touch()
    (folder / ".redkilnignore").write_text("!/out/\n")
    found = names(open_bundle(folder))
    assert {"lib/out/layer.py", "lib/job.json", "out/code.py"} <= set(found)
