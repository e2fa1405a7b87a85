"""The frozen rules of table dialects: what is recognised without options, and what needs one."""

import pyarrow as pa
import pytest

from redkiln.tables import MISSING_WORDS
from service.datasets.inspect.report import Refused
from service.datasets.inspect.tables.commas import Commas, find_commas
from service.datasets.inspect.tables.dialect import find_dialect
from service.datasets.inspect.tables.profile import profile_all


@pytest.fixture
def dialect(tmp_path):
    def dialect(text, *, delimiter=None, header=None):
        path = tmp_path / "table.csv"
        path.write_text(text, newline="")
        return find_dialect(
            path, place=None, delimiter=delimiter, header=header, missing=MISSING_WORDS
        )

    return dialect


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1;2\n", ";"),
        ("a\tb\n1\t2\n", "\t"),
        ("a|b\n1|2\n", "|"),
        ("a;b\n1,5;2,5\n3,5;4,5\n", ";"),  # more rows of equal length
        ("1,5;2,5\n3,5;4,5\n", ";"),  # as many regular rows: more numbers
        ("a,b\n1,2\n1,2;3\n", ","),
        ("a\tb\nx, y\tz\nx\tz, w\n", "\t"),
        ('"a;b",c\n"1;2",3\n', ","),
    ],
)
def test_the_delimiter_splits_most_rows_alike_and_then_gives_most_numbers(dialect, text, delimiter):
    assert dialect(text).delimiter == delimiter


@pytest.mark.parametrize("text", ["a b\n1 2\n", "a:b\n1:2\n", "a^b\n1^2\n", "a\n1\n"])
def test_other_delimiters_need_the_option(dialect, text):
    with pytest.raises(Refused, match="set delimiter=CHAR"):
        dialect(text)
    if mark := text[1].strip("\n"):
        assert dialect(text, delimiter=mark).first_rows == [["a", "b"], ["1", "2"]]


@pytest.mark.parametrize(
    ("text", "is_quoted"),
    [
        ("a,b\n1,2\n", True),  # a later row may be quoted
        ("a\tb\n1\t2\n", False),  # a TSV needs no quotes
        ('a,b\n"1, 2",3\n', True),
        ('a\tb\n"1\t2"\t3\n', True),
        ('a\tb\n"open\t2\nx\t4\n', False),  # unbalanced: plain text
        ('a,b\nx,say "hi"\n', True),  # a quote within a field opens nothing
    ],
)
def test_quotes_are_part_of_the_text_if_they_are_unbalanced(dialect, text, is_quoted):
    assert dialect(text).is_quoted is is_quoted


@pytest.mark.parametrize(
    ("text", "has_header"),
    [
        ("x,z\n1,2\n", True),  # names above numbers
        ("1,2\n3,4\n", False),
        ("x,1\n3,4\n", False),  # a number is no name
        ("0,label\n3,a\n", True),  # unless there is a well-known name
        ("text,b\ntext,c\n", False),  # but not if the name occurs again below
        ("red,small\nblue,large\n", True),
        ("red,small\nblue,small\n", False),  # repeated below
        ("x,z\n", True),  # a single row of names
        (",z\n1,2\n", True),  # one nameless column, as pandas writes its index
        (",,z\n1,2,3\n", False),
        ("x,z\nNA,1\nNA,2\n", True),  # missing words are not counted
        (f"{'x' * 101},z\n1,2\n", False),  # too long for a name
    ],
)
def test_the_first_row_is_a_header_by_these_rules(dialect, text, has_header):
    assert dialect(text).has_header is has_header
    assert dialect(text, header=not has_header).has_header is not has_header


@pytest.mark.parametrize(
    ("values", "reading"),
    [
        (["1", "2.5"], None),
        (["3,5", "1"], Commas(",")),
        (["0,125"], Commas(",")),
        (["1234,567"], Commas(",")),
        (["1.234,5"], Commas(",")),
        (["1,234,567"], Commas(".")),
        (["1,234.5"], Commas(".")),
        (["765,100"], Commas(None)),
        (["1,170", "936"], Commas(None)),
        (["1.234"], None),
        (["1.234.567"], Commas(",", mark=".")),
        (["3,5", "1,234,567"], None),  # they conflict
        (["1 234"], None),
        (["1'234"], None),
        (["$1,234"], None),
    ],
)
def test_a_column_decides_what_its_commas_mean(values, reading):
    assert find_commas(pa.chunked_array([values])) == reading


@pytest.mark.parametrize(
    ("other", "delimiter", "decimal"),
    [
        (["1", "2"], ",", None),  # nothing decides: the user is asked
        (["1", "2"], ";", ","),
        (["3,5", "1"], ",", ","),
        (["1,234,567", "2"], ";", None),  # decimal points elsewhere: the user is asked
        (["1.5", "2"], ";", None),
    ],
)
def test_other_columns_and_the_delimiter_decide_ambiguous_commas(other, delimiter, decimal):
    columns = [pa.chunked_array([["765,100", "573,100"]]), pa.chunked_array([other])]
    profiles = profile_all(
        ["amount", "other"],
        columns,
        missing=MISSING_WORDS,
        numeric=set(),
        decimal=None,
        delimiters={delimiter},
        num_threads=1,
    )
    assert profiles["amount"].commas.decimal == decimal
