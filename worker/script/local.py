"""`redkiln run --local`: runs a script here and now, with a job's folders and patches.

Nothing is confined or copied: the program runs in its own folder, as the current user, in this
terminal.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from redkiln.tasks.script import ScriptSpec
from worker.hardware.masks import HIDE_GPUS
from worker.hardware.patch_words import describe_outcomes
from worker.hardware.patches import merge_environment, merge_settings
from worker.hardware.program import ask_torch, decide_for_program, probe_command_of
from worker.process.failed import TrainingFailed
from worker.script.ending import explain_exit
from worker.script.program.packages import build_environment
from worker.script.program.paths import ScriptPaths
from worker.script.program.program import build_program
from worker.script.program.variables import SECRETS

CACHE_DIR = Path("~/.cache/redkiln")
EXIT_FAILED = 1
OWN_VARIABLES = ("HOME", "TMPDIR")
OWN_PREFIX = "XDG_"
"""Variables that keep the user's values, like those that are secrets on a worker."""


def run_local(arguments: Sequence[str]) -> int:
    """Run a script as a job would, but without a queue; return its exit status."""
    options = _parse(arguments)
    out = Path(options.out).resolve()
    paths = ScriptPaths(
        out.parent / f".{out.name}-redkiln", own_out=out, own_code=Path(options.code).resolve()
    )
    paths.prepare()
    cache_dir = CACHE_DIR.expanduser()
    try:
        spec = parse_spec(json.loads(options.spec))
    except SpecError as error:
        _print(str(error))
        return EXIT_FAILED
    assert isinstance(spec, ScriptSpec)
    is_on_cpu = spec.resources.device == "cpu"
    shown = {**os.environ, **(HIDE_GPUS if is_on_cpu else {})}
    torch = ask_torch(sys.executable, environ=shown)
    outcomes = decide_for_program(
        torch,
        environ=shown,
        cache_dir=cache_dir / "kernels",
        probe_command=probe_command_of(sys.executable),
    )
    _print("patches for this hardware:\n" + describe_outcomes(outcomes))
    settings = merge_settings(outcomes)
    try:
        environment = build_environment(
            spec.script.requirements, cache_dir=cache_dir, paths=paths, say=_print
        )
    except TrainingFailed as error:
        _print(str(error))
        return EXIT_FAILED
    is_resumed = any(paths.checkpoints_dir.iterdir())
    program = build_program(
        spec,
        paths=paths,
        environment=environment,
        data=None if options.data is None else Path(options.data).resolve(),
        is_resumed=is_resumed,
        num_gpus=0 if is_on_cpu else spec.resources.gpus,
        torch_settings=json.dumps(settings) if settings else None,
        environ={**shown, **merge_environment(outcomes)},
    )
    kept = {name: value for name, value in program.environ.items() if name not in OWN_VARIABLES}
    own = {name: value for name, value in os.environ.items() if _is_own(name)}
    environ = own | kept
    if is_resumed:
        _print(f"resuming from {paths.checkpoints_dir}; remove this folder to start over")
    try:
        status = _run_to_its_end(program.words, cwd=paths.code_dir, environ=environ)
    except OSError as error:
        _print(f"{program.words[0]} cannot be run: {error.strerror}")
        return EXIT_FAILED
    failure = explain_exit(status, tail="", oom_kills=0)
    _print(f"the results are in {out}" if failure is None else failure.message)
    return status if status >= 0 else 128 - status


def _run_to_its_end(words: Sequence[str], *, cwd: Path, environ: Mapping[str, str]) -> int:
    """Run the program. It handles Ctrl-C itself, because the terminal sends that to it, too.

    SIGTERM is passed on once, because its sender may know only this process.

    Returns:
        The exit status; negative: the signal that ended it.
    """
    with subprocess.Popen(words, cwd=cwd, env=environ) as child:
        # Set after the start: a handler that is set earlier would swallow a Ctrl-C before the
        # program runs.
        def pass_on(*_: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child.terminate()

        handlers = {signal.SIGINT: _print_waiting, signal.SIGTERM: pass_on}
        before = {number: signal.signal(number, handle) for number, handle in handlers.items()}
        try:
            return child.wait()
        finally:
            for number, handle in before.items():
                signal.signal(number, handle)


def _print_waiting(*_: object) -> None:
    _print("interrupted; waiting for the program to end")


def _is_own(name: str) -> bool:
    return name in (*OWN_VARIABLES, *SECRETS) or name.startswith(OWN_PREFIX)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m worker.script local", description=__doc__)
    parser.add_argument("--out", required=True, help="folder for the results")
    parser.add_argument("--code", default=".", help="folder that the program starts in")
    parser.add_argument("--data", help="path that replaces {data}")
    parser.add_argument("--spec", required=True, help="the job's spec as JSON")
    return parser.parse_args(arguments)


def _print(text: str) -> None:
    sys.stderr.write(f"redkiln: {text}\n")
    sys.stderr.flush()
