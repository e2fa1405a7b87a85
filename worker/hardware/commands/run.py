"""`python -m worker.hardware run -- PROGRAM`: any program, with the patches for this hardware.

The variables are set, torch's switches are set when the program imports it, what was done is
printed to stderr, and this process becomes the program.
"""

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from redkiln.views.hardware import PatchOutcome
from worker.hardware import hook
from worker.hardware.hook.sitecustomize import VARIABLE
from worker.hardware.patches import merge_environment, merge_settings
from worker.hardware.patches.report import describe_outcomes
from worker.hardware.program import (
    ask_torch,
    decide_for_program,
    find_interpreter,
    probe_command_of,
)

EXIT_USAGE = 2
EXIT_NOT_FOUND = 127
"""As shells do."""
HOOK_DIR = Path(hook.__file__).parent
CACHE_DIR = Path("~/.cache/redkiln/kernels")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to run, and how to tell of it."""
    parser.usage = "python -m worker.hardware run [--dry-run] [--json] [--cache-dir DIR] -- PROGRAM"
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and end")
    parser.add_argument("--json", action="store_true", help="say it as JSON")
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=CACHE_DIR,
        metavar="DIR",
        help=f"compiled and tuned kernels, and what was proved (default: {CACHE_DIR})",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="after --, with its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Decide, say so, and become the program; an exit status only where that fails."""
    command = [word for place, word in enumerate(arguments.program) if place or word != "--"]
    if not command and not arguments.dry_run:
        sys.stderr.write("there is nothing to run: write the program after --\n")
        return EXIT_USAGE
    outcomes, problem = _decide(command, os.environ, arguments.cache_dir.expanduser())
    text = _describe(outcomes, problem, as_json=arguments.json)
    (sys.stdout if arguments.dry_run else sys.stderr).write(text)
    if arguments.dry_run:
        return 0
    sys.stderr.flush()
    try:
        os.execvpe(command[0], command, build_environment(outcomes, os.environ))  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be run: {error.strerror}\n")
        return EXIT_NOT_FOUND


def build_environment(
    outcomes: Sequence[PatchOutcome], environ: Mapping[str, str]
) -> dict[str, str]:
    """The program's environment: its own, the variables, and the hook where torch needs it."""
    environment = {**environ, **merge_environment(outcomes)}
    settings = merge_settings(outcomes)
    if settings:
        places = [str(HOOK_DIR), *filter(None, [environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join(places)
        environment[VARIABLE] = json.dumps(settings)
    return environment


def _decide(
    command: Sequence[str], environ: Mapping[str, str], cache_dir: Path
) -> tuple[list[PatchOutcome], str]:
    interpreter = find_interpreter(command)
    torch = ask_torch(interpreter, environ=environ)
    outcomes = decide_for_program(
        torch,
        environ=environ,
        cache_dir=cache_dir,
        probe_command=probe_command_of(interpreter),
    )
    return outcomes, torch.problem


def _describe(outcomes: Sequence[PatchOutcome], problem: str, *, as_json: bool) -> str:
    if as_json:
        listed = [outcome.model_dump(exclude_defaults=True) for outcome in outcomes]
        return json.dumps({"problem": problem, "patches": listed}, indent=2) + "\n"
    lines = [f"redkiln: {problem}"] if problem else []
    return "\n".join(
        [*lines, "redkiln: patches for this hardware", describe_outcomes(outcomes), ""]
    )
