"""Faults of a program's disk and clock: `faults.c`, compiled once, and how a test steers it."""

import errno
import mmap
import shutil
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("faults.c")
LAYOUT = struct.Struct("dqqqqq256s")
"""`struct control`."""


def compile_library(folder):
    """Compile the library; without a compiler the test is skipped."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: install Debian's package gcc")
    path = folder / "faults.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", path, SOURCE, "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


class Faults:
    """The faults of one program, and how often they happened.

    Args:
        below: Only files below this folder have faults.
        shadow: Folder for copies of what is durable; None to keep none.
    """

    def __init__(self, library, control_path, *, below, shadow=None):
        control_path.write_bytes(bytes(LAYOUT.size))
        with control_path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), LAYOUT.size)
        self._below = str(below).encode()
        self.environment = {"LD_PRELOAD": str(library), "REDKILN_FAULTS": str(control_path)}
        if shadow is not None:
            self.environment["REDKILN_SHADOW"] = str(shadow)
        self._set()

    def _set(self, *, clock_seconds=0.0, write_errno=0, sync_errno=0):
        values = (clock_seconds, write_errno, sync_errno, 0, 0, 0, self._below)
        self._memory[:] = LAYOUT.pack(*values)

    @contextmanager
    def _during(self, count, **faults):
        self._set(**faults)
        try:
            yield
            happened = LAYOUT.unpack(self._memory[:])[count]
        finally:
            self._set()
        assert happened, f"no call had the fault {faults}"

    def no_room(self):
        """Writes fail as on a full disk; at least one must happen in the block."""
        return self._during(3, write_errno=errno.ENOSPC)

    def broken_writes(self):
        """Writes fail with an I/O error; at least one must happen in the block."""
        return self._during(3, write_errno=errno.EIO)

    def broken_syncs(self):
        """Syncs fail with an I/O error; at least one must happen in the block."""
        return self._during(4, sync_errno=errno.EIO)

    def clock(self, seconds):
        """The wall clock is off by this; it must be read in the block."""
        return self._during(5, clock_seconds=float(seconds))
