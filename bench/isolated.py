"""A measurement in a process of its own, whose threads and memory are set as a trainer's are."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from bench.result import Result
from worker.agent.children.environment import use_huge_pages
from worker.process.threads import ENVIRONMENT

TRAINER = {**ENVIRONMENT, **use_huge_pages(os.environ)}
"""What a trainer on a CPU runs in."""


def run_isolated(
    module: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> list[Result]:
    """What `python -m <module> <arguments>` measured: the last line that it prints."""
    command = [sys.executable, "-m", module, *arguments]
    variables = {**TRAINER, **(environment or {}), **os.environ}
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE)
    *_log, results = done.stdout.splitlines()
    return [Result(**item) for item in json.loads(results)]


def print_results(results: Sequence[Result]) -> None:
    """What such a process prints at its end."""
    print(json.dumps([result.as_dict() for result in results]))
