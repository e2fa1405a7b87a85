"""Whether `make vision` would tell something new: a digest of its inputs, kept next to the tests.

    python tools/vision_lock.py is-passed    exit status 0 if these inputs have passed before
    python tools/vision_lock.py write        note that they have passed

The inputs are the pinned packages, the extras of pyproject.toml that the environment installs, and
each Python file of the worker, of the contract and of their tests that names timm or torchvision.
What else such a job runs through is the same for every model; the other tests prove it.
"""

import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK = Path("tests/vision.lock")
PINS = ("constraints.txt", "constraints-vision.txt")
EXTRAS = ("worker", "vision")
FOLDERS = ("redkiln", "worker", "tests/worker")
NAMES = re.compile(r"\b(timm|torchvision)\b")


def main(command: str, root: Path = ROOT) -> int:
    """Run a command; the exit status."""
    digest = compute_digest(root)
    path = root / LOCK
    if command == "write":
        path.write_text(f"{digest}\n")
        print(f"{LOCK} notes that this passed: commit it")
        return 0
    if not path.exists() or path.read_text().strip() != digest:
        return 1
    print(f"make vision: skipped, its inputs passed before ({LOCK}); rm {LOCK} runs it again")
    return 0


def compute_digest(root: Path) -> str:
    """Return the sha256 of all inputs; a file that only moves changes nothing."""
    digests = sorted(hashlib.sha256(content).hexdigest() for content in _inputs(root))
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _inputs(root: Path) -> Iterator[bytes]:
    for name in PINS:
        yield (root / name).read_bytes()
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = extras["optional-dependencies"]
    yield json.dumps({name: sorted(extras[name]) for name in EXTRAS}).encode()
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            content = path.read_bytes()
            if NAMES.search(content.decode()):
                yield content


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
