"""Sends the code of a folder to the service."""

from pathlib import Path

from rich.text import Text

from redkiln.cli.command import Session
from redkiln.cli.view import words
from redkiln.cli.view.transfers import download_counter, transfer_bars
from redkiln.client.bundle import Bundle, LeftOut, open_bundle

SHOWN_LEFT_OUT = 8


def send_code(session: Session, code: Path) -> str:
    """Upload the code of a folder, print the files and omissions, and return its sha256."""
    bundle = open_bundle(code)
    package = bundle.package
    with transfer_bars(session.notes) as bars:
        on_bytes = download_counter(bars, "code", package.size_bytes)
        sha256 = session.client.push_bundle(package, on_bytes=on_bytes)
    for line in describe_bundle(bundle):
        session.note(Text(line, style="dim"))
    return sha256


def describe_bundle(bundle: Bundle) -> list[str]:
    """Describe the content and the omissions of a bundle."""
    size = words.size(bundle.package.size_bytes)
    lines = [f"code: {words.plural(bundle.num_files, 'file')}, {size}"]
    if bundle.left_out:
        shown = ", ".join(_name(item) for item in bundle.left_out[:SHOWN_LEFT_OUT])
        more = len(bundle.left_out) - SHOWN_LEFT_OUT
        lines.append(f"left out: {shown}" + (f", and {more} more" if more > 0 else ""))
    return lines


def _name(item: LeftOut) -> str:
    return f"{item.path} ({item.reason})"
