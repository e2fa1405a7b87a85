"""Reads the table options of a request from its query parameters."""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import ValidationError

from redkiln.spec.problems import SpecProblem, find_problems
from redkiln.tables import ColumnUse, TableOptions
from service.errors import Unprocessable


def read_options(columns: Sequence[str] = (), **given: Any) -> TableOptions:
    """Read the options of an upload.

    Args:
        columns: Texts `NAME=TYPE`; a name may contain `=`.
        given: Further options by name; None for options that are not set.

    Raises:
        Unprocessable: Options are invalid; the error has one problem for each.
    """
    options = {name: value for name, value in given.items() if value is not None}
    uses: dict[str, str] = {}
    for column in columns:
        name, mark, use = column.rpartition("=")
        if not (mark and name):
            types = ", ".join(get_args(ColumnUse))
            message = f"{column!r} is not of the form NAME=TYPE with TYPE one of {types}"
            raise _unprocessable([SpecProblem("/column", "invalid_column", message)])
        uses[name] = use
    try:
        return TableOptions.model_validate({**options, "columns": uses})
    except ValidationError as error:
        problems = find_problems(error.errors(include_url=False), TableOptions)
        raise _unprocessable(problems) from None


def _unprocessable(problems: list[SpecProblem]) -> Unprocessable:
    detail = "; ".join(f"{problem.pointer or '/'}: {problem.message}" for problem in problems)
    return Unprocessable(detail, code="invalid_request", errors=problems)
