"""Prints what an image must install, from `pyproject.toml` and `constraints.txt`.

    python requirements.py general                pins of what torch and torchvision need, for an
                                                  index that has only ROCm and torch; with hashes
    python requirements.py wanted EXTRA...        requirements of these extras, without torch
    python requirements.py pins [REPORT]          pins for pip: those in constraints*.txt of what
                                                  `pip --dry-run --report` would install, and the
                                                  present version of torch
    python requirements.py verify REPORT          fails if `pip install --report` installed a file
                                                  whose hash is not in hashes.txt

A worker's base image has torch and much of what torch needs. Only what is missing is installed, in
the versions that CI uses; packages of the base that satisfy the requirements stay as they are.
"""

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-rocm")
"""Packages built together, against one ROCm: replacing one breaks the others."""

NEEDED_BY_TORCH = (
    "filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "networkx", "numpy", "pillow",
    "setuptools", "sympy", "typing-extensions",
)  # fmt: skip
"""What torch 2.13 and torchvision 0.28 require, by the metadata of their wheels. pip takes what is
missing here from torch's index."""


HASHES = Path("hashes.txt")
"""Pins with the hashes of all their files; `make hashes` writes it."""


class Unlocked(Exception):  # noqa: N818  # the name states the fault
    """A version or a file has no hash in `HASHES`."""


def normalise(name: str) -> str:
    """Return a project's name in the form that package indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_name(requirement: str) -> str:
    """Return the project's name in a requirement or a pin."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return normalise(match.group()) if match else ""


def select_wanted(project: dict[str, Any], extras: Sequence[str]) -> list[str]:
    """Return the requirements of the package and of some extras, without torch."""
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [line for line in wanted if read_name(line) not in TORCH_FAMILY]


def select_general(constraints: Iterable[str]) -> list[str]:
    """Return the pins of what torch needs and what is the same for every build of it."""
    pins = {read_name(line): line.strip() for line in constraints}
    return [pins[name] for name in NEEDED_BY_TORCH]


def select_pins(
    constraints: Iterable[str], installed: dict[str, str], to_install: set[str] | None
) -> list[str]:
    """Return the pins for an installation.

    Args:
        constraints: Lines `name==version`.
        installed: Versions in the base image, by name.
        to_install: Names that pip would install; None before that is known, which leaves
            everything in the base image unpinned.
    """
    family = [f"{name}=={installed[name]}" for name in TORCH_FAMILY if name in installed]
    pins = []
    for line in constraints:
        name = read_name(line)
        chosen = name not in installed if to_install is None else name in to_install
        if name and chosen and name not in TORCH_FAMILY:
            pins.append(line.strip())
    return [*pins, *family]


def read_hashes(path: Path) -> dict[str, str]:
    """Return each pin with its hashes, which may take several lines, by name and version."""
    pins = re.findall(r"^\S+==(?:.*\\\n)*.*$", path.read_text(), re.MULTILINE)
    return {f"{read_name(pin)}=={_read_version(pin)}": pin for pin in pins}


def add_hashes(pins: Iterable[str], hashes: dict[str, str]) -> list[str]:
    """Return pins (`name==version`) with their hashes, for `pip install --require-hashes`.

    Raises:
        Unlocked: A version has no hashes.
    """
    return [_find_hashes(f"{read_name(pin)}=={_read_version(pin)}", hashes) for pin in pins]


def verify(report: dict[str, Any], hashes: dict[str, str]) -> int:
    """Return the number of files that pip installed.

    Args:
        report: Report of `pip install --report`.
        hashes: See `read_hashes`.

    Raises:
        Unlocked: A file is none of those in `hashes`.
    """
    for item in report["install"]:
        data = item["metadata"]
        known = _find_hashes(f"{normalise(data['name'])}=={data['version']}", hashes)
        found = item["download_info"]["archive_info"]["hashes"]["sha256"]
        if f"sha256:{found}" not in known:
            raise Unlocked(
                f"the file of {data['name']} {data['version']} has another hash: {found}"
            )
    return len(report["install"])


def _find_hashes(version: str, hashes: dict[str, str]) -> str:
    if version not in hashes:
        raise Unlocked(
            f"{version} is not in docker/hashes.txt; pin the version in constraints.txt, and run "
            "`make hashes`"
        )
    return hashes[version]


def read_installed() -> dict[str, str]:
    """Return the versions of the packages installed in this Python."""
    return {
        normalise(found.metadata["Name"]): found.version
        for found in importlib.metadata.distributions()
    }


def read_constraints(folder: Path) -> list[str]:
    """Return the lines of all constraint files in a folder."""
    paths = sorted(folder.glob("constraints*.txt"))
    return [line for path in paths for line in path.read_text().splitlines()]


def read_report(path: Path) -> set[str]:
    """Return the names listed in the report of `pip install --report`."""
    report = json.loads(path.read_text())
    return {normalise(item["metadata"]["name"]) for item in report["install"]}


def _read_version(pin: str) -> str:
    return pin.partition("==")[2].split()[0]


def main(arguments: list[str]) -> None:
    """Print one requirement a line."""
    constraints = read_constraints(Path())
    if arguments[0] == "general":
        lines = add_hashes(select_general(constraints), read_hashes(HASHES))
    elif arguments[0] == "verify":
        report = json.loads(Path(arguments[1]).read_text())
        lines = [f"verified the hashes of {verify(report, read_hashes(HASHES))} files"]
    elif arguments[0] == "wanted":
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        lines = select_wanted(project, arguments[1:])
    else:
        to_install = read_report(Path(arguments[1])) if arguments[1:] else None
        lines = select_pins(constraints, read_installed(), to_install)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Unlocked as error:
        sys.exit(str(error))
