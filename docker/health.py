"""Health checks of the containers.

python -m docker.health service      the service answers
python -m docker.health worker       the agent's loops turn
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
"""An agent that did not touch its file for so long hangs: a round of polling takes 30 s when idle,
and less than this when every call of it runs into its timeout."""


def find_problem(part: str, environment: Mapping[str, str], *, now: float) -> str | None:
    """What is wrong with a part, or None."""
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
        return f"the agent has been silent for {silence:.0f} s"
    return None


if __name__ == "__main__":
    sys.exit(find_problem(sys.argv[1], os.environ, now=time.time()))
