"""Decides whether a column that numbers the rows is used."""

from service.datasets.inspect.quality.columns import find_explained_share
from service.datasets.inspect.report import quote_use, show
from service.datasets.inspect.tables.profile import Profile
from service.datasets.inspect.tables.roles import NUMBERS_ROWS, Roles, Use
from service.datasets.inspect.tables.value_types.names import ID_NAME

INFORMATIVE = 0.1
"""Share of the target's variance from which a column that numbers the rows is used."""


def keep_informative_numbers(roles: Roles, profiles: dict[str, Profile]) -> None:
    """Use columns that number the rows if they predict an amount, as days or distances do.

    A class is different: a table that is sorted by its classes would leak them.
    """
    target = profiles[roles.target].numbers
    if roles.task != "tabular-regression" or target is None:
        return
    for name in [name for name, use in roles.uses.items() if use.note == NUMBERS_ROWS]:
        numbers = profiles[name].numbers
        if ID_NAME.search(name) or numbers is None:
            continue
        if find_explained_share(numbers, target) >= INFORMATIVE:
            roles.uses[name] = Use("numeric")
            roles.notes.append(
                f"column {show(name)} numbers the rows, but is used, because it predicts the "
                f"target; to leave it out: column={quote_use(name, 'ignored')}"
            )
