"""What a request says about a table, in query parameters or in the members of a JSON body."""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import ValidationError

from redkiln.tables import ColumnUse, TableOptions
from redkiln.tasks import SpecProblem, find_problems
from service.errors import Unprocessable


def read_options(columns: Sequence[str] = (), **given: Any) -> TableOptions:
    """The options of an upload.

    Args:
        columns: `NAME=TYPE` each; a name may have `=` in it.
        given: further options by their names; None for what was not said.

    Raises:
        Unprocessable: with one problem for each mistake.
    """
    said = {name: value for name, value in given.items() if value is not None}
    uses: dict[str, str] = {}
    for column in columns:
        name, mark, use = column.rpartition("=")
        if not (mark and name):
            types = ", ".join(get_args(ColumnUse))
            message = f"{column!r} is not of the form NAME=TYPE with TYPE one of {types}"
            raise _unprocessable([SpecProblem("/column", "invalid_column", message)])
        uses[name] = use
    try:
        return TableOptions.model_validate({**said, "columns": uses})
    except ValidationError as error:
        problems = find_problems(error.errors(include_url=False), TableOptions)
        raise _unprocessable(problems) from None


def _unprocessable(problems: list[SpecProblem]) -> Unprocessable:
    detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
    return Unprocessable(detail, code="invalid_request", errors=problems)
