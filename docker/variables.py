"""Secret settings, given as the path of a file so that `docker inspect` does not show them."""

from collections.abc import Mapping
from pathlib import Path

FROM_FILES = ("REDKILN_BROKER_URL", "REDKILN_DATABASE_URL")


def load_file_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with each `<NAME>_FILE` of `FROM_FILES` replaced by `<NAME>`.

    A variable that is set takes precedence over its file.

    Raises:
        OSError: A file cannot be read.
    """
    loaded = dict(environment)
    for name in FROM_FILES:
        path = loaded.pop(f"{name}_FILE", "")
        if path and not loaded.get(name):
            loaded[name] = Path(path).read_text().strip()
    return {name: value for name, value in loaded.items() if value or name not in FROM_FILES}
