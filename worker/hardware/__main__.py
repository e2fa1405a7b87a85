"""`python -m worker.hardware COMMAND`: what the GPUs of this machine are, and whether they work."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Protocol, cast


class Command(Protocol):
    """What a module of `worker.hardware.commands` offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it and return the exit status."""


COMMANDS = {
    "bench": "measure what this machine can do, and say what follows for training",
    "doctor": "say what keeps this machine from training on its GPUs, and what to type",
    "facts": "print what is known of the GPUs of this machine, or of a captured tree",
    "run": "run a program of your own with the patches for this hardware",
}
"""Modules of `worker.hardware.commands` and what they do; each is imported when it is asked for."""

SELF_TEST = (
    "Whether a GPU computes right numbers: python -m worker.hardware.selftest "
    "[--device cuda:0] [--quick], a program of its own because it opens the GPU."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
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
    """The module of a command; some import torch, so that none is loaded unasked."""
    module = importlib.import_module(f"worker.hardware.commands.{name.replace('-', '_')}")
    return cast("Command", module)


if __name__ == "__main__":
    sys.exit(main())
