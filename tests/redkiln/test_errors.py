import re

from redkiln import errors
from redkiln.errors import ApiError, ErrorItem, Problem

ENTRY = re.compile(r"^[ │├└─]*([A-Z]\w+)", re.MULTILINE)


def test_every_error_is_in_the_tree_of_the_docstring():
    _, tree, *_ = errors.__doc__.split("\n\n")
    known = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert set(ENTRY.findall(tree)) - {"UserWarning"} == known


def test_errors_in_the_detail_are_not_repeated():
    items = [ErrorItem(pointer="/a", message="too small"), ErrorItem(pointer="/b", message="lost")]
    problem = Problem(title="Unprocessable", status=422, detail="/a: too small", errors=items)
    assert str(ApiError(problem)) == "Unprocessable (422); /a: too small; /b: lost"
