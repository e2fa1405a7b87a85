"""What an image installs, from `pyproject.toml` and `constraints.txt`.

    python requirements.py wanted EXTRA           the requirements of one extra, without torch
    python requirements.py pins [REPORT]          pins for pip: of constraints.txt, those of the
                                                  packages that `pip --dry-run --report` would
                                                  install, and of torch the one that is there

A worker's base image brings torch and much of what torch needs. Only what the base lacks is
installed, in the versions that CI runs; what the base has and what suffices stays as it is.
"""

import importlib.metadata
import json
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

TORCH_FAMILY = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton-rocm")
"""Built together, against one ROCm: one replaced breaks the others."""


def normalise(name: str) -> str:
    """A project's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_name(requirement: str) -> str:
    """The project's name in a requirement or a pin."""
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    return normalise(match.group()) if match else ""


def select_wanted(project: dict[str, Any], extra: str) -> list[str]:
    """The requirements of the package and of one extra, without torch."""
    wanted = [*project["dependencies"], *project["optional-dependencies"][extra]]
    return [line for line in wanted if read_name(line) not in TORCH_FAMILY]


def select_pins(
    constraints: Iterable[str], installed: dict[str, str], to_install: set[str] | None
) -> list[str]:
    """The pins that an installation keeps to.

    Args:
        constraints: lines `name==version`.
        installed: versions in the base, by name.
        to_install: names that pip would install; None before that is known, when everything
            that the base has stays unpinned.
    """
    family = [f"{name}=={installed[name]}" for name in TORCH_FAMILY if name in installed]
    pins = []
    for line in constraints:
        name = read_name(line)
        chosen = name not in installed if to_install is None else name in to_install
        if name and chosen and name not in TORCH_FAMILY:
            pins.append(line.strip())
    return [*pins, *family]


def read_installed() -> dict[str, str]:
    """Versions of the packages that this Python has."""
    return {
        normalise(found.metadata["Name"]): found.version
        for found in importlib.metadata.distributions()
    }


def read_report(path: Path) -> set[str]:
    """Names that a `pip install --report` lists."""
    report = json.loads(path.read_text())
    return {normalise(item["metadata"]["name"]) for item in report["install"]}


def main(arguments: list[str]) -> None:
    """Print one line a requirement."""
    if arguments[0] == "wanted":
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        lines = select_wanted(project, arguments[1])
    else:
        to_install = read_report(Path(arguments[1])) if arguments[1:] else None
        constraints = Path("constraints.txt").read_text().splitlines()
        lines = select_pins(constraints, read_installed(), to_install)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
