import io

import pytest
from rich.console import Console

from redkiln.cli.view.render import Column, choose_columns, print_table, share_room

COLUMNS = (
    Column("name", when_narrow="cut"),
    Column("size", is_right=True),
    Column("extra", when_narrow="drop"),
    Column("id", when_narrow="drop"),
)


@pytest.mark.parametrize(
    ("room", "expected"),
    [(59, [0, 1, 2, 3]), (58, [0, 1, 2]), (46, [0, 1, 2]), (45, [0, 1]), (5, [0, 1])],
)
def test_columns_are_dropped_from_the_right_until_it_fits(room, expected):
    assert choose_columns(COLUMNS, [20, 10, 10, 10], room=room) == expected


@pytest.mark.parametrize(
    ("room", "expected"),
    [(40, {0: 20, 1: 10}), (33, {0: 20, 1: 10}), (30, {0: 17, 1: 10}), (5, {0: 10, 1: 10})],
)
def test_columns_that_may_be_cut_are_narrowed_first(room, expected):
    assert share_room(COLUMNS, [20, 10, 10, 10], [0, 1], room=room) == expected


def draw(rows, width):
    stream = io.StringIO()
    print_table(Console(file=stream, width=width), COLUMNS, rows)
    return stream.getvalue()


def test_names_are_cut_before_numbers():
    drawn = draw([("a very long name of something", "123.4 MB", "x" * 30, "id_1")], 30)
    assert "123.4 MB" in drawn
    assert "a very long name" in drawn
    assert "…" in drawn
    assert max(len(line) for line in drawn.splitlines()) <= 30


def test_with_enough_room_nothing_is_cut():
    drawn = draw([("a very long name of something", "123.4 MB", "x" * 30, "id_1")], 200)
    assert "a very long name of something" in drawn
    assert "x" * 30 in drawn
