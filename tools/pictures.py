"""Records the README's picture: what a terminal shows during `redkiln train builtin:digits`.

`python -m tools.pictures` starts the stack in a temporary folder, runs the real command in a
pseudo-terminal, and writes the live panel in the middle of the training to `docs/pictures/`. It
prints the lines that are left when the job has ended, which the README shows as text.
"""

import io
import math
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from fcntl import ioctl
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from native.stack import Stack

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
COMMAND = ("redkiln", "train", "builtin:digits")
COLUMNS, ROWS = 96, 50
ERASE = re.compile(r"(?:\r|\x1b\[\d*[AK])*\x1b\[2K(?:\r|\x1b\[\d*[AK])*")
"""What a live panel writes before it draws itself again."""
HIDE_OR_SHOW_CURSOR = re.compile(r"\x1b\[\?25[lh]")
PROGRESS = re.compile(r"━ +(\d+) %")
REMOTE_FONT = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, Stack(Path(folder) / "state") as stack:
        output = run_in_terminal(
            [sys.executable, "-m", "redkiln", *COMMAND[1:]],
            environment={"REDKILN_URL": stack.url, "REDKILN_KEY": stack.admin_key},
            folder=Path(folder),
        )
    screens = split_screens(output)
    FOLDER.mkdir(exist_ok=True)
    draw(min(screens, key=distance_from_middle), FOLDER / "train-live.svg")
    sys.stdout.write(Text.from_ansi(screens[-1]).plain + "\n")


def run_in_terminal(command: list[str], *, environment: dict[str, str], folder: Path) -> str:
    """Return everything that a command writes to a terminal.

    Raises:
        subprocess.CalledProcessError: The command failed.
    """
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    colours = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **colours, **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    while chunk := read(ours):
        output += chunk
    os.close(ours)
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command, output)
    return output.decode()


def split_screens(output: str) -> list[str]:
    """Return what the terminal showed after each time that the command redrew itself."""
    parts = ERASE.split(HIDE_OR_SHOW_CURSOR.sub("", output.replace("\r\n", "\n")))
    return [part.strip("\n") for part in parts if part.strip()]


def distance_from_middle(screen: str) -> float:
    """Return how far the progress bar of a live panel is from 70 %."""
    shown = PROGRESS.search(Text.from_ansi(screen).plain)
    return abs(int(shown[1]) - 70) if shown else math.inf


def read(terminal: int) -> bytes:
    """Return what was written to a pseudo-terminal, nothing after its last writer has left."""
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux reports EIO where a pipe would report its end
        return b""


def draw(screen: str, path: Path) -> None:
    """Write one screen as SVG, under the command that printed it."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(f"[bold green]$[/] {' '.join(COMMAND)}", highlight=False)
    console.print(Text.from_ansi(screen))
    svg = console.export_svg(title="", code_format=REMOTE_FONT.sub("", CONSOLE_SVG_FORMAT))
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


if __name__ == "__main__":
    main()
