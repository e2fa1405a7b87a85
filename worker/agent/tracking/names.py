"""Names and parameters in the form that MLflow accepts."""

import hashlib
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_NAME = 250
"""Characters of the name of a parameter, a metric or a tag that servers accept."""
MAX_VALUE = 500
"""Characters of a parameter's value that servers of every release accept."""
# Source: mlflow `utils/validation.py`, all releases; newer ones also allow `:`.
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")


def make_name(name: str) -> str:
    """Return a name that servers accept: unchanged, or its allowed characters and a digest.

    The digest distinguishes names that otherwise become equal, such as `>50K` and `<50K`.
    """
    if _is_name(name):
        return name
    digest = hashlib.sha256(name.encode(errors="backslashreplace")).hexdigest()[:8]
    readable = _NOT_IN_NAMES.sub("_", name)[: MAX_NAME - len(digest) - 1]
    shortened = f"{readable}-{digest}"
    if _is_name(shortened):
        return shortened
    return f"{readable.replace('/', '_').lstrip('.')}-{digest}"


def flatten(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield a resolved spec as parameters: `training.optimizer.lr` -> `0.002`."""
    for key, value in spec.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flatten(value, f"{name}.")
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            yield make_name(name), text[:MAX_VALUE]


def _is_name(name: str) -> bool:
    """Return whether a server accepts a name; servers may use it as a path."""
    is_path = posixpath.normpath(name) == name != "." and not name.startswith(("..", "/"))
    return is_path and len(name) <= MAX_NAME and not _NOT_IN_NAMES.search(name)
