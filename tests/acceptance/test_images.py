"""What is in the worker's images, of both targets, built on stand-ins for their bases.

The stand-ins have torch for the CPU and no torchvision. So this proves the recipes, the imports,
and that the doctor runs in the image; not ROCm's libraries, and neither torchvision nor timm.
"""

import json

import pytest

from tests.acceptance.stack import run

pytestmark = pytest.mark.acceptance

LOOK = """
import json, sys, torch
from importlib.util import find_spec
from worker.hardware.facts.compilers import find_compiler_obstacle
json.dump({
    "torch": torch.__version__,
    "arch_list": torch.cuda.get_arch_list(),
    "obstacle": find_compiler_obstacle("cpu", {}),
    "has_timm": find_spec("timm") is not None,
}, sys.stdout)
"""


def run_in(image, *command):
    """Run a command in a fresh container of a machine without a GPU."""
    return run(
        "docker", "run", "--rm", "--network=none", "--shm-size=2g", "--env=REDKILN_DEVICES=none",
        image, "python", *command, check=False,
    )  # fmt: skip


@pytest.fixture(params=["worker", "slim"])
def image(request, images):
    return images[request.param]


def test_torch_and_a_compiler_are_there_and_timm_was_left_out_as_asked(image):
    found = json.loads(run_in(image, "-c", LOOK).stdout)
    assert found["torch"].startswith("2.13.0")
    assert found["arch_list"] == []  # a torch for the CPU has none
    assert found["obstacle"] is None
    assert not found["has_timm"]


def test_the_doctor_reads_the_torch_of_the_image(image):
    torch = json.loads(run_in(image, "-c", LOOK).stdout)["torch"]
    done = run_in(image, "-m", "worker.hardware", "doctor", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["versions"]["torch"] == torch
    (row,) = [check for check in report["checks"] if check["id"] == "torch_is_rocm"]
    assert row["evidence"].startswith(f"torch {torch} is built for CPUs only")
