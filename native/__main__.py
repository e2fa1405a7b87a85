"""The command `python -m native up|demo|page|page-check`."""

import argparse
import os
import signal
import sys
from pathlib import Path

from native.processes import PartFailed
from native.redis import NoRedis
from native.stack import StateInUse

EXIT_INTERRUPTED = 130


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m native", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="run the stack in the foreground, until Ctrl-C")
    commands.add_parser("demo", help="start everything, train a small CNN, stop everything")
    commands.add_parser("page", help="build the web page")
    commands.add_parser("page-check", help="check the types of the web page's sources")
    command = parser.parse_args(argv).command
    # Every signal but SIGKILL stops the parts in order; after kill -9 the leashes end them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return _run(command)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (PartFailed, NoRedis, StateInUse) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


def _run(command: str) -> int:
    if command == "up":
        from native.up import run_up

        return run_up(Path(os.environ.get("REDKILN_STATE_DIR") or "data"))
    if command == "page":
        from native.page import run_page

        return run_page()
    if command == "page-check":
        from native.page import run_check

        return run_check()
    from native.demo import run_demo

    return run_demo()


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
