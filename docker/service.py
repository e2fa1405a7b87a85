"""Entrypoint of the service's container: reads secrets from files, then runs as PID 1.

python -m docker.service COMMAND [ARGUMENT...]
"""

import os
import sys
from collections.abc import Iterable

from docker.supervise import supervise
from docker.variables import load_file_variables

EX_CONFIG = 78


def main(command: list[str]) -> int:
    """Run the command and return its exit status."""
    try:
        environment = load_file_variables(os.environ)
    except OSError as error:
        reason = f"Cannot read {error.filename}: {error.strerror}"
        say([f"{reason}. `init` writes it: check `docker compose logs init`, then `up -d` again."])
        return EX_CONFIG
    return supervise(command, environment=environment)


def say(messages: Iterable[str]) -> None:
    """Print messages to the container's log."""
    for message in messages:
        sys.stderr.write(f"redkiln: {message}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
