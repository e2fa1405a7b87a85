import importlib.metadata
import os
import subprocess
import textwrap

import pytest

from redkiln.tasks.script import Limits
from tests.wheels import WHEEL, write_wheel
from worker.process.failed import TrainingFailed
from worker.script import heartbeat
from worker.script.bounds.bounds import Bounds
from worker.script.program import packages
from worker.script.program.packages import build_environment, digest, names_files

SETUP = """
from setuptools import setup
setup(name="tiny-own", version="{version}", py_modules=["tiny_own"], install_requires={needs})
"""


@pytest.fixture
def write_package(paths):
    """A package in the script's own code, which needs nothing from the network."""

    def write(name="tiny", *, version="1.0", needs=()):
        folder = paths.code_dir / name
        folder.mkdir(exist_ok=True)
        (folder / "setup.py").write_text(SETUP.format(version=version, needs=list(needs)))
        (folder / "tiny_own.py").write_text(f"VERSION = {version!r}\n")

    return write


@pytest.fixture
def build(paths, tmp_path, monkeypatch):
    # The worker's own setuptools builds it: nothing is fetched.
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said = []

    def build(*lines, code_digest="d1"):
        environment = build_environment(
            lines,
            cache_dir=tmp_path / "cache",
            paths=paths,
            say=said.append,
            code_digest=code_digest,
            confine=lambda command, folder: Bounds(paths, Limits(), writable=[folder]).command(
                command
            ),
        )
        return environment.bin_dir / "python"

    build.said = said
    return build


def ask(python, code):
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.integration
def test_a_scripts_package_is_layered_on_the_workers_torch(build, write_package):
    write_package()
    python = build("./tiny")
    code = "import tiny_own, torch; print(tiny_own.VERSION, torch.__version__)"
    assert ask(python, code) == f"1.0 {importlib.metadata.version('torch')}"
    assert build("./tiny") == python
    assert "reusing the environment" in build.said[-1]


@pytest.mark.integration
def test_the_same_line_with_other_code_installs_another_package(build, paths):
    write_wheel(paths.code_dir / WHEEL)
    first = build(f"./{WHEEL}")
    write_wheel(paths.code_dir / WHEEL, says="2.0")
    second = build(f"./{WHEEL}", code_digest="d2")
    code = "import tiny_own; print(tiny_own.VERSION)"
    assert (ask(first, code), ask(second, code)) == ("1.0", "2.0")


@pytest.mark.integration
def test_another_torch_is_refused_with_the_installers_message(build, write_package, tmp_path):
    write_package(needs=["torch==1.0"])
    with pytest.raises(TrainingFailed, match=r"torch.*is never replaced") as caught:
        build("./tiny")
    assert caught.value.failure.code == "bad_input"
    assert not list((tmp_path / "cache" / "environments").glob("*/complete"))


@pytest.mark.integration
def test_files_named_in_a_line_are_found_in_the_code_whose_modules_shadow_none_of_the_installer(
    build, write_package, paths
):
    write_package()
    for name in ("types", "logging"):
        (paths.code_dir / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    (paths.code_dir / "base.txt").write_text("./tiny\n")
    python = build("-r base.txt")
    assert ask(python, "import tiny_own; print(tiny_own.VERSION)") == "1.0"
    assert not list(paths.code_dir.glob(".requirements-*"))


@pytest.mark.integration
def test_a_long_installation_sends_heartbeats(build, write_package, monkeypatch, paths):
    monkeypatch.setattr(packages, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(heartbeat.Heartbeat.__init__, "__kwdefaults__", {
        **heartbeat.Heartbeat.__init__.__kwdefaults__, "seconds": 0.05
    })  # fmt: skip
    write_package()
    setup = paths.code_dir / "tiny" / "setup.py"
    setup.write_text("import time; time.sleep(0.3)\n" + setup.read_text())
    build("./tiny")
    assert [text for text in build.said if text.startswith("still installing after")]


@pytest.mark.integration
def test_an_installation_that_takes_too_long_is_ended(build, write_package, monkeypatch, paths):
    monkeypatch.setattr(packages, "INSTALL_SECONDS", 0.3)
    monkeypatch.setattr(packages, "POLL_SECONDS", 0.05)
    write_package()
    (paths.code_dir / "tiny" / "setup.py").write_text("import time; time.sleep(60)\n")
    with pytest.raises(TrainingFailed, match="took more than"):
        build("./tiny")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("numpy", False),
        ("numpy>=1,<3 ; python_version > '3.8'", False),
        ("peft[extra] ~= 0.1  # see ./notes", False),
        ("numpy==2.0 --hash=sha256:ab", False),
        ("--extra-index-url https://example.org/simple", False),
        ("pkg @ git+https://example.org/a/b@main", False),
        ("# a note", False),
        ("./pkg", True),
        ("vendor/pkg", True),
        ("wheels/x.whl", True),
        ("x-1.0-py3-none-any.whl", True),
        ("pkg @ file:///a/b", True),
        ("--editable pkg/", True),
        ("-f ./wheels", True),
        ("-c f", True),
        ("-r base.txt", True),
    ],
)
def test_lines_that_name_files_are_recognised(line, expected):
    assert names_files(line) is expected


def test_an_environments_key_depends_on_requirements_and_worker(monkeypatch):
    def key(line, code="c1"):
        return digest([line], ["torch==2"], code_digest=code)

    assert key("numpy==1.0") == key("numpy==1.0", "c2")
    assert key("vendor/pkg") != key("vendor/pkg", "c2")
    pinned, open_ = key("numpy==1.0"), key("numpy")
    monkeypatch.setattr(packages, "datetime", Tomorrow)
    assert (key("numpy==1.0") == pinned, key("numpy") == open_) == (True, False)
    monkeypatch.setattr(packages.importlib.metadata, "distributions", list)
    assert key("numpy==1.0") != pinned


class Tomorrow:
    @staticmethod
    def now(_zone):
        from datetime import UTC, datetime, timedelta

        return datetime.now(UTC) + timedelta(days=1)


@pytest.mark.integration
def test_an_editable_package_is_not_kept_for_other_jobs(build, write_package, paths, tmp_path):
    write_package()
    python = build("-e ./tiny")
    assert python.is_relative_to(paths.environment_dir)
    build("-e ./tiny")
    assert build.said.count("installing -e ./tiny") == 2
    assert not (tmp_path / "cache").exists()


@pytest.mark.integration
def test_code_that_may_change_is_installed_again_each_time(build, paths):
    write_wheel(paths.code_dir / WHEEL)
    build(f"./{WHEEL}", code_digest=None)
    write_wheel(paths.code_dir / WHEEL, says="2.0")
    python = build(f"./{WHEEL}", code_digest=None)
    assert ask(python, "import tiny_own; print(tiny_own.VERSION)") == "2.0"


@pytest.mark.integration
def test_no_variable_of_the_worker_redirects_the_installer(
    build, write_package, paths, monkeypatch, tmp_path
):
    monkeypatch.setenv("XDG_CACHE_HOME", "/worker/cache")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))  # a folder that it may not read
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    write_package()
    setup = paths.code_dir / "tiny" / "setup.py"
    check = """
        import os
        assert "HF_TOKEN" not in os.environ and "XDG_CACHE_HOME" not in os.environ
    """
    setup.write_text(textwrap.dedent(check) + setup.read_text())
    build("./tiny")
    assert os.environ["HF_TOKEN"] == "hf_secret"
