"""What the worker's images are asked to install, by the commands of their recipe.

No stand-in of a base image has torchvision, so no build of CI includes it. These commands run here
as the recipe has them.
"""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from docker.requirements import read_name

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "docker" / "worker.Dockerfile").read_text()
BUILDS = {"TORCH_BUILD": "2.13.0+rocm10.0.0", "TORCHVISION_BUILD": "0.28.0+rocm10.0.0"}


def find_plan(stage):
    """Return the command that plans a stage's installation, and the defaults of its arguments."""
    (text,) = re.findall(rf"^FROM \S+ AS {stage}$(.*?)^FROM ", RECIPE, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^RUN (.*?[^\\])$", text, re.DOTALL | re.MULTILINE)
    return command, dict(re.findall(r"^ARG (\w+)=(\S*)$", text, re.MULTILINE))


@pytest.fixture
def plan(tmp_path):
    """Run a stage's plan with the build's arguments; return the files that it writes."""
    sources = ("pyproject.toml", "constraints.txt", "docker/hashes.txt", "docker/requirements.py")
    for name in sources:
        shutil.copy(ROOT / name, tmp_path)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("python", "python3"):
        (tools / name).symlink_to(sys.executable)

    def run(stage, **arguments):
        command, defaults = find_plan(stage)
        environ = {"PATH": f"{tools}:{os.environ['PATH']}", **defaults, **arguments}
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environ, check=True)
        return {path.stem: path.read_text().splitlines() for path in tmp_path.glob("*.txt")}

    return run


def test_slim_takes_torch_and_torchvision_in_the_pinned_builds_and_timm_beside_them(plan):
    files = plan("slim-plan", **BUILDS)
    assert files["torch"] == ["torch==2.13.0+rocm10.0.0", "torchvision==0.28.0+rocm10.0.0"]
    names = {read_name(line) for line in files["wanted"]}
    assert {"timm", "onnxscript"} <= names
    assert not {"torch", "torchvision"} & names
    assert "pillow" in {read_name(line) for line in files["general"]}


def test_slim_for_the_cpu_takes_the_torch_of_ci_and_the_torchvision_that_fits_it(plan):
    (pinned,) = [
        line
        for line in (ROOT / "constraints.txt").read_text().split()
        if line.startswith("torch==")
    ]
    assert plan("slim-plan")["torch"] == [pinned, "torchvision"]


@pytest.mark.parametrize("stage", ["slim-plan", "plan"])
def test_an_image_without_vision_has_neither_timm_nor_torchvision(plan, stage):
    files = plan(stage, VISION="no", **BUILDS)
    assert "timm" not in {read_name(line) for line in files["wanted"]}
    assert files.get("torch", []) in ([], ["torch==2.13.0+rocm10.0.0"])


def test_the_full_image_installs_timm_and_leaves_torchvision_to_its_base(plan):
    names = {read_name(line) for line in plan("plan", EXTRAS="mlflow")["wanted"]}
    assert {"timm", "mlflow-skinny"} <= names
    assert "torchvision" not in names


def test_the_image_for_vulkan_installs_the_second_engine_and_no_rocm(plan):
    files = plan("slim-plan", EXTRAS="vulkan")
    names = {read_name(line) for part in ("wanted", "general") for line in files[part]}
    assert {"tinygrad", "dawn-python"} <= names
    assert "rocm" not in "".join(map(str, files.values()))


@pytest.mark.parametrize(("wanted", "is_installed"), [("tinygrad==0.14", True), ("numpy", False)])
def test_a_driver_of_vulkan_is_installed_only_with_the_second_engine(
    tmp_path, wanted, is_installed
):
    recipe = (ROOT / "docker" / "prepare-worker.sh").read_text()
    (part,) = re.findall(r"^if grep -q '\^tinygrad'.*?^fi$", recipe, re.DOTALL | re.MULTILINE)
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("apt-get", "dpkg-query", "awk", "rm"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >> calls.txt\necho 0\n')
        (tools / name).chmod(0o755)
    (tools / "grep").symlink_to(shutil.which("grep"))
    (tmp_path / "wanted.txt").write_text(f"{wanted}\n")
    command = ["/bin/sh", "-euc", f"size() {{ echo 0; }}\n{part}"]
    subprocess.run(
        command,
        cwd=tmp_path,
        env={"PATH": str(tools), "OPENCL_DRIVER": "driver-of-opencl"},
        check=True,
    )
    calls = tmp_path / "calls.txt"
    called = calls.read_text() if calls.exists() else ""
    assert ("mesa-vulkan-drivers vulkan-tools clinfo driver-of-opencl" in called) is is_installed


def test_the_build_gets_every_file_that_the_recipe_copies():
    """A build does not fail if a pattern of COPY matches fewer files than it should."""
    lines = [line.split() for line in RECIPE.splitlines() if line.startswith("COPY ")]
    patterns = {
        word for line in lines if not line[1].startswith("--from") for word in line[1:-1]
        if not word.startswith("--")
    }  # fmt: skip
    copied = {path.relative_to(ROOT).parts[0] for each in patterns for path in ROOT.glob(each)}
    assert {"constraints.txt", "constraints-vision.txt", "worker"} <= copied
    sent = (ROOT / ".dockerignore").read_text().split()
    kept = [line.removeprefix("!") for line in sent if line.startswith("!")]
    assert [name for name in copied if not any(fnmatch(name, each) for each in kept)] == []


def test_a_base_without_torchvision_is_refused_before_anything_is_installed(tmp_path):
    (tmp_path / "wanted.txt").write_text("timm>=1.0.20\n")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")  # nothing can be imported
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "docker" / "prepare-worker.sh")], cwd=tmp_path, check=False,
        capture_output=True, text=True, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 1
    assert "set REDKILN_VISION=no" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["python", "wanted.txt"]
