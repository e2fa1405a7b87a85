"""Base images from `../shared/docker-lab`, under the names of the registries' images.

`python3 tests/acceptance/stand_ins.py` builds those that are missing. CI runs it next to the
installation, because building all takes minutes; so it needs the standard library alone.
"""

import fcntl
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LAB = Path(__file__).parents[3] / "shared" / "docker-lab"
STAND_INS = {
    "rocm-pytorch": [
        "rocm/pytorch:rocm10.0_ubuntu24.04_py3.11_pytorch_release_2.13.0",
        "ubuntu:24.04",
    ],
    "python": ["python:3.13-slim"],
    "node": ["node:22-slim"],
    "redis": ["redis:8"],
}
"""Tags of each kind; the kind that takes longest is the first."""


def build_missing():
    """Build the base images that the engine lacks, all at once; another process's are waited for.

    Raises:
        subprocess.CalledProcessError: The engine does not run, or an image cannot be built.
    """
    with (Path(tempfile.gettempdir()) / "redkiln-stand-ins.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with ThreadPoolExecutor(len(STAND_INS)) as threads:
            list(threads.map(_build, STAND_INS))


def _build(kind):
    missing = [tag for tag in STAND_INS[kind] if not _has_image(tag)]
    if missing:
        subprocess.run([LAB / "standin", kind, *missing], check=True)


def _has_image(tag):
    command = ["docker", "images", "--quiet", tag]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout != b""


if __name__ == "__main__":
    build_missing()
