"""Settings that are secrets: given as the name of a file, so that `docker inspect` shows none."""

from collections.abc import Mapping
from pathlib import Path

FROM_FILES = ("REDKILN_BROKER_URL", "REDKILN_DATABASE_URL")


def load_file_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with each `<NAME>_FILE` of `FROM_FILES` replaced by `<NAME>`.

    A name that is set itself wins over its file.

    Raises:
        OSError: a file that is named cannot be read.
    """
    loaded = dict(environment)
    for name in FROM_FILES:
        path = loaded.pop(f"{name}_FILE", "")
        if path and not loaded.get(name):
            loaded[name] = Path(path).read_text().strip()
    return {name: value for name, value in loaded.items() if value or name not in FROM_FILES}
