"""Pins the worker's images to one ROCm release, and the base image to its digest.

    python -m docker.pin                      show the releases, and what .env pins now
    python -m docker.pin 10.1                 pin this release for the full and the slim worker
    python -m docker.pin 10.0 --no-digest     the same without asking the registry

The full worker is built on an image of AMD, the slim one with AMD's wheels. The lines are
written together, so that the two never differ in ROCm. Then run `./up` again.
"""

import argparse
import json
import re
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RELEASES_PATH = Path(__file__).with_name("releases.toml")
REPOSITORY = "rocm/pytorch"
REGISTRY = "https://registry-1.docker.io"
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
TIMEOUT_SECONDS = 30.0
BASE, TORCH = "REDKILN_BASE_IMAGE", "REDKILN_TORCH_BUILD"
VISION = "REDKILN_TORCHVISION_BUILD"


class Unpinnable(Exception):  # noqa: N818  # the name states the fault
    """The registry did not name the image's digest."""


@dataclass(frozen=True)
class Release:
    """A ROCm release.

    Attributes:
        rocm: Number of the release.
        tag: Tag of AMD's image.
        torch: Version of AMD's wheel of torch, with its build.
        torchvision: Version of AMD's wheel of torchvision for this torch, with its build.
        note: Difference from the other releases.
        is_default: Whether the images use it without any pin.
    """

    rocm: str
    tag: str
    torch: str
    torchvision: str
    note: str
    is_default: bool = False


def load_releases(path: Path = RELEASES_PATH) -> dict[str, Release]:
    """Load the releases by their number."""
    rows = tomllib.loads(path.read_text())["release"]
    return {row["rocm"]: Release(**row) for row in rows}


def ask_digest(tag: str, *, registry: str) -> str:
    """Return the digest of an image, of all its platforms together if it has several.

    Raises:
        Unpinnable: The registry does not answer, or does not have the tag.
    """
    url = f"{registry}/v2/{REPOSITORY}/manifests/{tag}"
    try:
        answer = _open(url, headers={})
    except urllib.error.HTTPError as error:
        if error.code != 401:
            raise Unpinnable(f"{url}: {error}") from error
        answer = _open_with_token(url, challenge=error.headers.get("WWW-Authenticate", ""))
    except OSError as error:
        raise Unpinnable(f"{registry} does not answer: {error}") from error
    digest: str = answer.get("Docker-Content-Digest", "")
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise Unpinnable(f"{url}: the answer has no digest")
    return digest


def build_pins(release: Release, *, digest: str | None) -> dict[str, str]:
    """Return the lines of .env that pin a release."""
    image = f"{REPOSITORY}:{release.tag}" + (f"@{digest}" if digest else "")
    return {BASE: image, TORCH: release.torch, VISION: release.torchvision}


def read_pins(path: Path) -> dict[str, str]:
    """Return what a file pins now; empty if the file is missing."""
    lines = path.read_text().splitlines() if path.exists() else []
    pairs = (line.partition("=") for line in lines)
    return {name: value for name, _, value in pairs if name in (BASE, TORCH, VISION)}


def write_pins(path: Path, pins: Mapping[str, str]) -> None:
    """Replace the pins in a file and keep its other lines."""
    lines = path.read_text().splitlines() if path.exists() else []
    kept = [line for line in lines if line.partition("=")[0] not in pins]
    partial = path.with_name(f"{path.name}.part")
    partial.write_text("".join(f"{line}\n" for line in [*kept, *_to_lines(pins)]))
    partial.replace(path)


def describe_changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Describe what changes, one line each; the same pins give one line."""
    changed = [
        f"{name}: {before.get(name, 'not pinned')} -> {value}"
        for name, value in after.items()
        if before.get(name) != value
    ]
    return changed or ["nothing changes"]


def main(arguments: Sequence[str]) -> int:
    """Pin a release; the exit status is 1 if the registry did not answer."""
    options = _parse(arguments)
    releases, before = load_releases(), read_pins(options.file)
    if options.release is None:
        _print([*(_describe(release, before) for release in releases.values())])
        return 0
    release = releases[options.release]
    try:
        digest = None if options.no_digest else ask_digest(release.tag, registry=options.registry)
    except Unpinnable as error:
        _print([f"{error}", "Nothing was written. Without the digest: add --no-digest"])
        return 1
    after = build_pins(release, digest=digest)
    write_pins(options.file, after)
    _print([*describe_changes(before, after), f"Wrote {options.file} ({release.note})."])
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m docker.pin", description=__doc__)
    parser.add_argument("release", nargs="?", choices=list(load_releases()), help="ROCm release")
    parser.add_argument("--file", type=Path, default=Path(".env"), help="file to write")
    parser.add_argument("--no-digest", action="store_true", help="pin the tag alone")
    parser.add_argument("--registry", default=REGISTRY, help="address of the registry")
    return parser.parse_args(arguments)


def _open(url: str, *, headers: Mapping[str, str]) -> Any:
    request = urllib.request.Request(  # noqa: S310  # the address is a constant or the user's
        url, method="HEAD", headers={"Accept": ", ".join(KINDS), **headers}
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        return answer.headers


def _open_with_token(url: str, *, challenge: str) -> Any:
    """Ask again with the token that the registry gives to everyone."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    if "realm" not in fields:
        raise Unpinnable(f"{url}: the registry asks for a login")
    query = "&".join(f"{name}={fields[name]}" for name in ("service", "scope") if name in fields)
    try:
        with urllib.request.urlopen(  # noqa: S310  # the registry names it
            f"{fields['realm']}?{query}", timeout=TIMEOUT_SECONDS
        ) as answer:
            token = json.load(answer)["token"]
        return _open(url, headers={"Authorization": f"Bearer {token}"})
    except (OSError, ValueError, KeyError) as error:
        raise Unpinnable(f"{url}: {error}") from error


def _describe(release: Release, pins: Mapping[str, str]) -> str:
    is_pinned = pins.get(TORCH) == release.torch or (not pins and release.is_default)
    return f"{'*' if is_pinned else ' '} {release.rocm:<5} {release.torch:<20} {release.note}"


def _to_lines(pins: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in pins.items()]


def _print(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
