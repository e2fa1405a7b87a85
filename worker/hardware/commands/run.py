"""`python -m worker.hardware run -- PROGRAM`: run any program with the patches for this hardware.

The command sets variables, arranges for torch's switches to be set when the program imports torch,
prints its decisions to stderr, and becomes the program.
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
from worker.hardware.patch_words import describe_outcomes
from worker.hardware.patches import merge_environment, merge_settings
from worker.hardware.program import (
    ask_torch,
    decide_for_program,
    find_interpreter,
    probe_command_of,
)

EXIT_USAGE = 2
EXIT_NOT_FOUND = 127
"""The same status that shells use."""
HOOK_DIR = Path(hook.__file__).parent
CACHE_DIR = Path("~/.cache/redkiln/kernels")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to run and how to report."""
    parser.usage = "python -m worker.hardware run [--dry-run] [--json] [--cache-dir DIR] -- PROGRAM"
    parser.add_argument("--dry-run", action="store_true", help="print the decisions and exit")
    parser.add_argument("--json", action="store_true", help="print the decisions as JSON")
    parser.add_argument(
        "--cache-dir",
        type=Path,
        default=CACHE_DIR,
        metavar="DIR",
        help=f"folder of compiled and tuned kernels and of probe results (default: {CACHE_DIR})",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program with its arguments")


def run(arguments: argparse.Namespace) -> int:
    """Decide, report, and become the program; return an exit status only on failure."""
    command = [word for place, word in enumerate(arguments.program) if place or word != "--"]
    if not command and not arguments.dry_run:
        sys.stderr.write("no program given; write the program and its arguments after --\n")
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
    """Build the program's environment: its own, the patches' variables, and the hook.

    The hook's folder also contains the module `fade_v11_plus`.
    """
    environment = {**environ, **merge_environment(outcomes)}
    places = [str(HOOK_DIR), *filter(None, [environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(places)
    if settings := merge_settings(outcomes):
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
        [*lines, "redkiln: patches for this hardware:", describe_outcomes(outcomes), ""]
    )
