"""The graph of what fits together; `graph.toml` holds it, this module defines its form."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from worker.hardware.facts.targets import Target

TABLE_PATH = Path(__file__).parent / "graph.toml"

Part = Literal["kernel", "driver", "firmware", "ROCm", "torch", "Python"]
Level = Literal["needs", "listed", "broken", "unknown"]
Wheels = Literal["classic", "therock"]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Edge(_Row):
    """What a card needs of one part.

    Attributes:
        level: `needs`: below `least` it does not work. `listed`: below `least` nobody lists it, but
            it may work. `broken`: the versions in `values` fail. `unknown`: no source names one.
        date: Day on which the source was read.
    """

    gfx: tuple[str, ...]
    part: Literal["kernel", "firmware"]
    level: Level
    least: str | None = None
    values: tuple[str, ...] = ()
    why: str
    source: str
    date: str


class Release(_Row):
    """A release of ROCm with what is built for it.

    Attributes:
        torch: Releases of torch with wheels or images for it.
        python: Releases of Python with wheels or images for it.
        driver_least: Oldest version of AMD's own amdgpu module that AMD lists; the kernel's own
            module has no version, and its kernel decides.
        driver_name: AMD's name for that driver.
        wheels: Builder of its wheels: pytorch.org (`classic`) or AMD (`therock`).
        images: Images of AMD with exactly these.
    """

    rocm: str
    torch: tuple[str, ...]
    python: tuple[str, ...]
    driver_least: str | None = None
    driver_name: str = ""
    wheels: Wheels
    index: str
    images: tuple[str, ...] = ()
    source: str
    date: str


class Graph(_Row):
    """All edges, and the day of the last change."""

    version: str
    edge: tuple[Edge, ...]
    release: tuple[Release, ...]

    def edges_of(self, gfx: str) -> list[Edge]:
        """Return what one card needs."""
        return [edge for edge in self.edge if gfx in edge.gfx]

    def releases_for(self, target: Target) -> list[Release]:
        """Return the releases with kernels for a card and their images, the newest first.

        AMD's images have kernels for fewer cards than its wheels.
        """
        found = [release for release in self.release if has_kernels(target, release)]
        if target.in_full_image:
            return found
        return [release.model_copy(update={"images": ()}) for release in found]


@cache
def load_graph() -> Graph:
    """Load the graph.

    Raises:
        pydantic.ValidationError: The file does not have this form.
    """
    return Graph.model_validate(tomllib.loads(TABLE_PATH.read_text()))


def has_kernels(target: Target, release: Release) -> bool:
    """Return whether a release's wheels hold kernels for a card."""
    if release.wheels == "therock":
        return target.in_therock
    until = target.classic_rocm_until
    if until is not None:
        return compare(release.rocm, until) <= 0
    since = target.classic_rocm_since
    return target.in_classic_wheels and (since is None or compare(release.rocm, since) >= 0)


def compare(left: str, right: str) -> int:
    """Compare two versions by their leading numbers: negative, zero or positive.

    A missing number is 0: `6.18` equals `6.18.0`.
    """
    a, b = _numbers(left), _numbers(right)
    length = max(len(a), len(b))
    padded = [numbers + [0] * (length - len(numbers)) for numbers in (a, b)]
    return (padded[0] > padded[1]) - (padded[0] < padded[1])


def is_of(version: str, release: str) -> bool:
    """Return whether a version belongs to a release, as `10.0.2` belongs to `10.0`."""
    wanted = _numbers(release)
    return _numbers(version)[: len(wanted)] == wanted


def _numbers(version: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", version.strip())
    return [int(part) for part in found[0].split(".")] if found else []
