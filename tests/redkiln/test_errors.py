import re

from redkiln import errors

ENTRY = re.compile(r"^[ │├└─]*([A-Z]\w+)", re.MULTILINE)


def test_every_error_is_in_the_drawn_tree():
    _, tree, *_ = errors.__doc__.split("\n\n")
    known = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert set(ENTRY.findall(tree)) == known
