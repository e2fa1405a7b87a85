"""Real containers on the real engine, spoken to over HTTP.

The engine and stand-ins for the images of registries come from `../shared/docker-lab`, where no
registry can be reached; without it these tests are skipped. With `REDKILN_ACCEPTANCE=required` a
test that would be skipped fails: what it needs was meant to be here.
"""

import functools
import http.server
import io
import os
import subprocess
import sys
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image

from tests.acceptance.stack import PARTS, ROOT, Stack, find_free_address, run
from tests.acceptance.stand_ins import LAB, build_missing

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
TAG = "acceptance"
IS_REQUIRED = os.environ.get("REDKILN_ACCEPTANCE") == "required"
SHORT = {"batch_size": 16, "steps": 100}


def find_pin(name):
    """The line of a package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def pytest_collection_modifyitems(items):
    """The first test of a session also builds the images."""
    for item in items:
        if "acceptance" in item.keywords and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1500))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where the tests are required, a skip is a failure."""
    report = yield
    if IS_REQUIRED and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, though the tests are required: {call.excinfo.value}"
    return report


@pytest.fixture(scope="session")
def engine():
    """A running engine that has every base image."""
    if not (LAB / "up").exists():
        pytest.skip(f"no {LAB}: neither an engine nor base images are at hand")
    if os.geteuid() != 0:
        pytest.skip("starting the engine and killing containers' processes needs root")
    run(str(LAB / "up"))
    build_missing()


@pytest.fixture(scope="session")
def gateway(engine):
    """This host's address as containers of any network see it."""
    template = "{{(index .IPAM.Config 0).Gateway}}"
    return run("docker", "network", "inspect", "bridge", "--format", template).stdout.strip()


@pytest.fixture(scope="session")
def torch_index(gateway, tmp_path_factory):
    """An index of torch builds, in the place of AMD's: the wheel that pip finds from this host."""
    folder = tmp_path_factory.mktemp("index")
    (folder / "torch").mkdir()
    run(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
        "--python-version=3.11", "--retries=0", f"--extra-index-url={CPU_INDEX}",
        f"--dest={folder / 'torch'}", find_pin("torch"), timeout=900,
    )  # fmt: skip

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Handler, directory=str(folder))
    server = http.server.ThreadingHTTPServer((gateway, 8766), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{gateway}:8766/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def variables(torch_index, gateway):
    """What every stack here is started with."""
    return {
        "REDKILN_TAG": TAG,
        "REDKILN_TORCH_INDEX": torch_index,
        "REDKILN_TORCH_INDEX_TRUSTED": gateway,
        "REDKILN_VISION": "no",  # the stand-ins have no torchvision
        "REDKILN_LOCKS": "redkiln-acceptance-locks",  # not the ones of an installation here
        "HF_TOKEN": "hf_of_a_test",
        # Two threads wait for each other where other programs run: a step took 40 times as long.
        "REDKILN_THREADS": "1",
        # a lost worker is noticed within seconds
        "REDKILN_LEASE_SECONDS": "15",
        "REDKILN_REPORT_SECONDS": "1",
        "REDKILN_REAP_SECONDS": "2",
        "REDKILN_POLL_SECONDS": "2",
        "REDKILN_REPUBLISH_SECONDS": "5",
    }


def keep_stacks(variables, tmp_path_factory):
    """Makes stacks and removes each with its volumes at the end."""
    stacks = []

    def build(name, *files, **more):
        data = tmp_path_factory.mktemp("data")
        data.chmod(0o755)
        stack = Stack(f"redkiln-{name}", files, {**variables, "REDKILN_DATA": str(data), **more})
        stack.data = data
        stacks.append(stack)
        stack.down(volumes=True)  # of a run that was killed
        return stack

    yield build
    for stack in reversed(stacks):
        stack.down(volumes=True)


@pytest.fixture
def build_stack(variables, tmp_path_factory):
    """Makes further stacks, for one test."""
    yield from keep_stacks(variables, tmp_path_factory)


@pytest.fixture(scope="session")
def build_main_stack(variables, tmp_path_factory):
    """Makes the stack that the tests share."""
    yield from keep_stacks(variables, tmp_path_factory)


@pytest.fixture(scope="session")
def images(variables):
    """The images, built from this checkout."""
    given = {**variables, "REDKILN_DATA": "/tmp"}
    everything = Stack("redkiln-build", ["compose.yaml"], given)
    slim = Stack("redkiln-build", ["compose.yaml", "compose.cpu.yaml"], given)
    with ThreadPoolExecutor(2) as threads:  # each often waits for the network or the disk
        builds = [
            threads.submit(everything.compose, "build", "service", "worker", timeout=1200),
            threads.submit(slim.compose, "build", "worker", timeout=1200),
        ]
        for build in builds:
            build.result()
    yield {
        "service": f"redkiln-service:{TAG}",
        "worker": f"redkiln-worker:rocm-{TAG}",
        "slim": f"redkiln-worker:cpu-{TAG}",
    }
    names = [f"redkiln-service:{TAG}", f"redkiln-worker:rocm-{TAG}", f"redkiln-worker:cpu-{TAG}"]
    subprocess.run(["docker", "rmi", "--force", *names], capture_output=True)


@pytest.fixture(scope="session")
def stack(images, build_main_stack):
    """The stack of a machine without a GPU, as its user starts it."""
    bind = find_free_address("127.0.0.1")
    stack = build_main_stack("acceptance", "compose.yaml", "compose.cpu.yaml", REDKILN_BIND=bind)
    started = time.monotonic()
    stack.up()
    stack.wait_healthy()
    stack.seconds_to_healthy = time.monotonic() - started
    return stack


@pytest.fixture
def running(stack):
    """The stack with every container up and its worker free, whatever happened before."""
    if any(stack.health(part) != "healthy" for part in PARTS):
        stack.up()
        stack.wait_healthy()
    for job in stack.get("/v1/jobs?limit=200")["data"]:
        if not job["is_terminal"]:  # of a test that failed: it would hold the only slot
            stack.call("POST", f"/v1/jobs/{job['id']}/cancel")
    stack.wait_for_workers(1)
    return stack


@pytest.fixture(scope="session")
def finished_job(stack):
    """A job of a hundred steps that has succeeded."""
    stack.wait_for_workers(1)
    job_id = stack.submit(dataset="builtin:digits", training=SHORT)
    return stack.wait_for_success(job_id)


@pytest.fixture
def tell(capsys):
    """Prints a measured figure, whether the test passes or not."""

    def write(line):
        with capsys.disabled():
            sys.stdout.write(f"\n{line}\n")

    return write


@pytest.fixture(scope="session")
def picture_folder(tmp_path_factory):
    """Two kinds of pictures, as a folder: bright ones and dark ones."""
    folder = tmp_path_factory.mktemp("pictures")
    for split, count in (("train", 40), ("test", 10)):
        for kind, level in (("bright", 200), ("dark", 60)):
            (folder / split / kind).mkdir(parents=True)
            for i in range(count):
                picture = Image.new("RGB", (16, 16), (level + i % 20, level, level - i % 30))
                picture.save(folder / split / kind / f"{i}.png")
    return folder


@pytest.fixture(scope="session")
def picture_zip(picture_folder):
    """The same as a zip archive's bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path in sorted(picture_folder.rglob("*.png")):
            archive.write(path, path.relative_to(picture_folder))
    return buffer.getvalue()
