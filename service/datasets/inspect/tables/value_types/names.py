"""Recognises columns that only name their rows, so that they are useless as inputs."""

import re

from service.datasets.inspect.tables.profile import Profile

ID_NAME = re.compile(
    r"(?i:(?:^|[_ ])(?:id|idx|index|key|uuid|guid|rowid|row)$|^unnamed: 0$)|[a-z](?:Id|ID)$"
)
MAX_CATEGORIES = 1000
"""Maximum different values of a column that is inferred to be categorical."""
MAX_FEW = 20
"""Maximum different integers that are taken for classes rather than amounts."""


def is_id(found: Profile) -> bool:
    """Return whether a column only numbers or names its rows."""
    if found.is_missing.any() or found.num_rows < 3:
        return False
    if found.are_integers and found.numbers is not None:
        steps = found.numbers[1:] - found.numbers[:-1]
        if (steps == 1).all():
            return True
        return bool(ID_NAME.search(found.name)) and found.num_distinct == found.num_rows
    return False


def has_too_many(found: Profile) -> bool:
    """Return whether a column without numbers has too many different values for categories."""
    return found.num_distinct > min(MAX_CATEGORIES, max(MAX_FEW, found.num_present // 2))
