"""Sends the code of a folder to the service."""

from pathlib import Path

from rich.text import Text

from redkiln.advice.hidden import IMAGE_SUFFIXES
from redkiln.cli.command import Session
from redkiln.cli.view import words
from redkiln.cli.view.transfers import download_counter, transfer_bars
from redkiln.client.bundle import Bundle, LeftOut, open_bundle

SHOWN_LEFT_OUT = 8
MANY_FILES, MANY_BYTES = 20, 5_000_000
"""Data in a bundle from which the command suggests not to send it."""
DATA_SUFFIXES = IMAGE_SUFFIXES | {
    *(".csv", ".tsv", ".parquet", ".arrow", ".feather", ".jsonl", ".npy", ".npz", ".h5", ".hdf5"),
    *(".zip", ".tar", ".gz", ".tgz", ".7z", ".wav", ".mp3", ".flac", ".mp4"),
}


def send_code(session: Session, code: Path) -> str:
    """Upload the code of a folder, print the files and omissions, and return its sha256."""
    bundle = open_bundle(code)
    package = bundle.package
    for line in describe_bundle(bundle):
        session.note(Text(line, style="dim"))
    with transfer_bars(session.notes) as bars:
        on_bytes = download_counter(bars, "code", package.size_bytes)
        return session.client.push_bundle(package, on_bytes=on_bytes)


def describe_bundle(bundle: Bundle) -> list[str]:
    """Describe the content and the omissions of a bundle."""
    size = words.size(bundle.package.size_bytes)
    lines = [f"code: {words.plural(bundle.num_files, 'file')}, {size}"]
    if bundle.left_out:
        shown = ", ".join(_name(item) for item in bundle.left_out[:SHOWN_LEFT_OUT])
        more = len(bundle.left_out) - SHOWN_LEFT_OUT
        lines.append(f"left out: {shown}" + (f", and {more} more" if more > 0 else ""))
    members = [member for member in bundle.package.members or () if not member.is_folder]
    data = [member for member in members if Path(member.name).suffix.lower() in DATA_SUFFIXES]
    num_bytes = sum(member.size_bytes for member in data)
    if len(data) >= MANY_FILES or num_bytes >= MANY_BYTES:
        lines.append(
            f"{words.count(len(data))} of these files are data ({words.size(num_bytes)}). To send "
            "only code, choose its folder with --code FOLDER, or name data in .redkilnignore; "
            "`--dataset PATH` uploads data once for all jobs"
        )
    return lines


def _name(item: LeftOut) -> str:
    return f"{item.path} ({item.reason})"
