import pytest

from worker.export.card.markdown import escape, escape_prose, number


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.1235"), (7.0711, "7.071"), (147_496.6, "147,497"), (-25_911.5, "-25,912"),
     (2.5e7, "2.5e+07")],
)  # fmt: skip
def test_large_numbers_are_written_with_their_digits(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85", "\v"])
def test_the_end_of_a_line_in_a_class_name_splits_no_table(end):
    assert escape(f"cat{end}| dog |") == "cat \\| dog \\|"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class a_b: `predict --threshold auto` finds *it*",
         "class a\\_b: `predict --threshold auto` finds \\*it\\*"),
        ("class a`b", "class a\\`b"),
        ("one\ntwo", "one two"),
    ],
)  # fmt: skip
def test_a_sentence_keeps_its_commands_and_loses_its_markup(text, expected):
    assert escape_prose(text) == expected
