"""The command `python -m native up|demo|page|page-check`."""

import argparse
import os
import signal
import sys
from pathlib import Path

from native.processes import PartFailed, Terminated
from native.redis import NoRedis
from native.stack import DEFAULT_BIND, AddressInUse, StateInUse

EXIT_INTERRUPTED = 130
MOST_PORTS = 65536


def main(argv: list[str] | None = None) -> int:
    """Run a command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m native", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_up(commands)
    commands.add_parser("demo", help="start everything, train a small CNN, stop everything")
    commands.add_parser("page", help="build the web page")
    commands.add_parser("page-check", help="check the types of the web page's sources")
    asked = parser.parse_args(argv)
    # Every signal but SIGKILL stops the parts in order; after kill -9 the leashes end them.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminate)
    try:
        return _run(asked)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except (PartFailed, NoRedis, AddressInUse, StateInUse) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


def _add_up(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    up = commands.add_parser(
        "up",
        help="run the stack in the foreground, until Ctrl-C",
        description="Run Redis, the service and a worker until Ctrl-C. Nobody but this machine "
        "reaches them by default.",
        epilog="Each option takes precedence over its variable. docs/settings.md lists all "
        "variables (REDKILN_*), such as REDKILN_AUTH and REDKILN_DATA_ROOTS.",
    )
    up.add_argument(
        "--port",
        type=_read_port,
        help="port of the service (default: that of REDKILN_BIND, otherwise 8321 or, if it is "
        "taken, another one)",
    )
    up.add_argument(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="folder for jobs, data and logs (default: REDKILN_STATE_DIR, otherwise ./data)",
    )
    up.add_argument(
        "--scripts",
        action="store_true",
        help="allow everyone who reaches the service without a key to run programs on this machine "
        "with `redkiln run` (REDKILN_SCRIPTS=on)",
    )


def _read_port(text: str) -> int:
    if text.isdecimal() and int(text) < MOST_PORTS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number below {MOST_PORTS}")


def _run(asked: argparse.Namespace) -> int:
    command = asked.command
    if command == "up":
        from native.up import run_up

        settings = {"REDKILN_SCRIPTS": "on"} if asked.scripts else {}
        if asked.port is not None:
            host, _, _ = (os.environ.get("REDKILN_BIND") or DEFAULT_BIND).rpartition(":")
            settings["REDKILN_BIND"] = f"{host}:{asked.port}"
        state_dir = asked.state or Path(os.environ.get("REDKILN_STATE_DIR") or "data")
        return run_up(state_dir, settings=settings)
    if command == "page":
        from native.page import run_page

        return run_page()
    if command == "page-check":
        from native.page import run_check

        return run_check()
    from native.demo import run_demo

    return run_demo()


def _terminate(_number: int, _frame: object) -> None:
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())
