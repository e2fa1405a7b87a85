"""Health checks of the containers.

python -m docker.health service      checks that the service answers
python -m docker.health worker       checks that the agent's loops run
"""

import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

SERVICE_TIMEOUT_SECONDS = 4.0
WORKER_SILENCE_SECONDS = 300.0
"""An agent that has not touched its file for longer than this hangs: one idle poll takes 30 s, and
even one whose calls all time out takes less than this."""


def find_problem(part: str, environment: Mapping[str, str], *, now: float) -> str | None:
    """Return what is wrong with a part, or None."""
    if part == "service":
        port = environment.get("REDKILN_BIND", ":8321").rpartition(":")[2]
        return _find_service_problem(f"http://127.0.0.1:{port}/healthz")
    return _find_worker_problem(Path(environment["REDKILN_WORKER_DIR"]) / "alive", now=now)


def _find_service_problem(url: str) -> str | None:
    try:
        with urllib.request.urlopen(url, timeout=SERVICE_TIMEOUT_SECONDS):  # noqa: S310  a fixed URL
            return None
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}"
    except OSError as error:
        return f"{url} does not answer: {error}"


def _find_worker_problem(path: Path, *, now: float) -> str | None:
    try:
        silence = now - path.stat().st_mtime
    except FileNotFoundError:
        return f"{path} is missing: the agent has not started"
    if silence > WORKER_SILENCE_SECONDS:
        return f"the agent's loops have not run for {silence:.0f} s"
    return None


if __name__ == "__main__":
    sys.exit(find_problem(sys.argv[1], os.environ, now=time.time()))
