"""Measurements in a separate process, with the thread and memory settings of a trainer."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from bench.result import Result
from worker.agent.children.environment import use_huge_pages
from worker.process.threads import ENVIRONMENT

TRAINER = {**ENVIRONMENT, **use_huge_pages(os.environ)}
"""Environment variables of a trainer on a CPU."""


def run_isolated(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> list[Result]:
    """Run `python -m <module> <arguments>` and return the results in its last printed line."""
    command = [sys.executable, "-m", module, *arguments]
    variables = {**TRAINER, **(environment or {}), **os.environ}
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE)
    *_log, results = done.stdout.splitlines()
    return [Result(**item) for item in json.loads(results)]


def print_results(results: Sequence[Result]) -> None:
    """Print results as the last line, for `run_isolated`."""
    print(json.dumps([result.as_dict() for result in results]))
