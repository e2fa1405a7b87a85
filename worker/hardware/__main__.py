"""`python -m worker.hardware COMMAND`: describe and check the GPUs of this machine."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from redkiln.imports import collector_off


class Command(Protocol):
    """The interface of a module in `worker.hardware.commands`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return the exit status."""


COMMANDS = {
    "bench": "measure this machine and recommend settings for training",
    "compat": "show what fits together for this machine's GPUs, and the smallest change that helps",
    "decisions": "list what is decided for each kind of GPU, with sources",
    "doctor": "find what prevents training on this machine's GPUs, and how to fix it",
    "facts": "print the known facts about this machine's GPUs, or about a captured tree",
    "run": "run your own program with the patches for this hardware",
}
"""Modules of `worker.hardware.commands`; each is imported only when it runs."""

SELF_TEST = (
    "Self-test of a GPU's numbers: python -m worker.hardware.selftest "
    "[--device cuda:0] [--quick]. It is a separate program because it opens the GPU."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m worker.hardware", description=__doc__, epilog=SELF_TEST
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary)
        if given[:1] == [name]:
            command = load_command(name)
            command.add_arguments(subparser)
            subparser.set_defaults(run=command.run)
    parsed = parser.parse_args(given)
    return cast("int", parsed.run(parsed))


def load_command(name: str) -> Command:
    """Import a command's module; only the requested one, because some import torch."""
    with collector_off():
        module = importlib.import_module(f"worker.hardware.commands.{name.replace('-', '_')}")
    return cast("Command", module)


if __name__ == "__main__":
    sys.exit(main())
