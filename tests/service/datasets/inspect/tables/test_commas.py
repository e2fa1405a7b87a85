"""A comma in a number separates thousands or decimals; an ambiguous one is not guessed."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def amounts():
    """A CSV whose column `price` repeats these values, between a size and a label."""

    def amounts(*values, delimiter=",", size=lambda i: str(i * 7 % 11)):
        lines = [
            delimiter.join([f'"{size(i)}"', f'"{values[i % len(values)]}"', "ab"[i % 3 > 1]])
            for i in range(40)
        ]
        return "\n".join([delimiter.join(["size", "price", "label"]), *lines])

    return amounts


def numbers(looked, name="price"):
    assert looked.errors == []
    return set(looked.table[name].to_pylist())


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["1,234,567", "936"], {1234567, 936}),
        (["1,234,567", "1,170", "-936"], {1234567, 1170, -936}),
        (["1,170.50", "936"], {1170.5, 936}),
        (["1,170", "0.5"], {1170, 0.5}),
    ],
)
def test_commas_that_can_only_separate_thousands_do_and_are_noted(look, amounts, written, read):
    looked = look(amounts(*written))
    assert numbers(looked) == read
    note = "the commas in the numbers of price separate thousands; to change it: decimal=,"
    assert note in looked.report.notes


@pytest.mark.parametrize(
    ("written", "read", "decimal"),
    [
        (["€143,-", "€1.299,\u2013", "€60,50"], {143, 1299, 60.5}, ","),
        (["143,- €", "7,-- €"], {143, 7}, ","),
        (["143.-", "1,299.\u2014", "60.5"], {143, 1299, 60.5}, "."),
        (["143.-", "7.-"], {143, 7}, "."),
    ],
)
def test_a_dash_for_no_cents_shows_the_decimal_mark(look, amounts, written, read, decimal):
    looked = look(amounts(*written))
    assert numbers(looked) == read
    (column,) = [one for one in looked.index.columns if one.name == "price"]
    assert column.written.decimal == decimal


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["3,5", "7"], {3.5, 7}),
        (["0,125", "0,750"], {0.125, 0.75}),
        (["1234,567", "1,170"], {1234.567, 1.17}),
        (["1,17", "2,170"], {1.17, 2.17}),
        (["1.234.567,5", "936,125"], {1234567.5, 936.125}),
    ],
)
def test_commas_that_can_only_be_decimal_are_and_are_noted(look, amounts, written, read):
    looked = look(amounts(*written))
    assert numbers(looked) == read
    note = "the commas in the numbers of price are decimal marks; to change it: decimal=."
    assert note in looked.report.notes


@pytest.mark.parametrize("written", [["765,100", "573,100"], ["936", "1,170"], ["-1,170", "+2"]])
def test_ambiguous_commas_are_refused_with_their_line_until_decimal_is_set(look, amounts, written):
    content = amounts(*written)
    looked = look(content)
    assert looked.codes == ["ambiguous_numbers"]
    (error,) = looked.errors
    first = next(place for place, value in enumerate(written) if "," in value)
    assert error.path == f"line {2 + first}"
    assert f"'price': the comma in {written[first]!r}" in error.message
    assert "decimal=. if it separates thousands, decimal=, if it is" in error.message
    thousands = {float(value.replace(",", "")) for value in written}
    decimals = {float(value.replace(",", ".")) for value in written}
    assert numbers(look(content, decimal=".")) == thousands
    assert numbers(look(content, decimal=",")) == decimals


def test_words_among_numbers_do_not_hide_ambiguous_commas(look, amounts):
    content = amounts("936", "1,170", "2,170", "3,170", "4", "5", "6", "7", "8", "x")
    assert look(content, missing=["x"]).codes == ["ambiguous_numbers"]
    looked = look(content, columns={"price": "numeric"})
    assert looked.codes[:2] == ["ambiguous_numbers", "too_many_bad_rows"]
    assert look(content).codes == ["mixed_types"]


def test_a_target_with_ambiguous_commas_is_refused(look, amounts):
    looked = look(amounts("765,100", "573,100", "9"), target="price", task="tabular-regression")
    assert (looked.codes, looked.errors[0].path) == (["ambiguous_numbers"], "line 2")


@pytest.mark.parametrize("use", ["ignored", "categorical"])
def test_a_column_that_is_not_numeric_needs_no_decimal_option(look, amounts, use):
    assert look(amounts("765,100", "573,100"), columns={"price": use}).errors == []


def test_a_file_with_semicolons_or_other_decimal_commas_has_decimal_commas(look, amounts):
    semicolons = look(amounts("765,100", "573,100", delimiter=";"))
    assert numbers(semicolons) == {765.1, 573.1}
    assert not any("commas" in note for note in semicolons.report.notes)
    (warning,) = [one for one in semicolons.report.warnings if one.code == "doubtful_thousands"]
    why = "column price: '765,100' was read as 765.1 because semicolons separate the fields, but"
    assert warning.message.startswith(why)
    assert warning.message.endswith("or push the table again with decimal=.")
    measured = look(amounts("765,100", "0,125", delimiter=";"))
    assert not any(one.code == "doubtful_thousands" for one in measured.report.warnings)
    others = look(amounts("765,100", "573,100", size=lambda i: f"{i * 7 % 11},5"))
    assert numbers(others) == {765.1, 573.1}
    assert any(
        "price are decimal marks, as in other columns" in note for note in others.report.notes
    )


@pytest.mark.parametrize("size", [lambda i: i / 2, lambda i: f"{i + 1},234,567"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_contradicting_columns_leave_the_commas_ambiguous(look, amounts, size, delimiter):
    looked = look(amounts("765,100", "573,100", size=size, delimiter=delimiter))
    assert looked.codes == ["ambiguous_numbers"]


def test_with_decimal_commas_points_only_separate_thousands(look, amounts):
    content = amounts("1.234", "12.345,5", size=lambda i: f"{i}.5")
    looked = look(content, decimal=",", columns={"size": "numeric"})
    assert "not_a_number" in looked.codes
    looked = look(content, decimal=",", columns={"size": "ignored"})
    assert numbers(looked) == {1234, 12345.5}


def test_ambiguous_texts_in_parquet_are_reported_with_their_row(look):
    buffer = io.BytesIO()
    columns = {"price": ["936", "1,170"] * 20, "size": [1.5, 2.5] * 20, "label": list("abba") * 10}
    pq.write_table(pa.table(columns), buffer)
    looked = look(buffer.getvalue())
    assert (looked.codes, looked.errors[0].path) == (["ambiguous_numbers"], "row 2")
    assert numbers(look(buffer.getvalue(), decimal=".")) == {936, 1170}


def test_missing_values_with_a_comma_need_no_decimal_option(look, amounts):
    looked = look(amounts("101", "102", "103", "9,999"), missing=["9999"])
    assert numbers(looked) == {101, 102, 103, None}


def test_points_separate_thousands_if_they_cannot_be_decimal(look, amounts):
    looked = look(amounts("1.234.567", "936", "1.170"), target="price", task="tabular-regression")
    assert looked.errors == []
    assert set(looked.table["__target__"].to_pylist()) == {1234567.0, 936.0, 1170.0}
    note = "the points in the numbers of price separate thousands; to change it: decimal=."
    assert note in looked.report.notes


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (["1.101", "950", "-1.102"], {1101, 950, -1102}),
        (["1.101 h", "1.346 h", "950"], {1101, 1346, 950}),
        (["1.101 €", "950 €"], {1101, 950}),
        (["1.101", "0.5"], {1.101, 0.5}),
        (["1.101 h", "0.5 h"], {1.101, 0.5}),
    ],
)
def test_points_separate_thousands_if_other_columns_have_decimal_commas(
    look, amounts, written, read
):
    looked = look(amounts(*written, delimiter=";", size=lambda i: f"{i * 7 % 11},5"))
    assert numbers(looked) == read
    note = "price separate thousands because commas are decimal in other columns; to change it: "
    assert any(note in said for said in looked.report.notes) == (1101 in read)


@pytest.mark.parametrize("delimiter", [",", ";"])
def test_classes_keep_their_commas(look, delimiter):
    lines = [f'{i * 7 % 11}{delimiter}{i}.5{delimiter}"{"12"[i % 2]},000"' for i in range(40)]
    looked = look("\n".join([delimiter.join(["size", "price", "label"]), *lines]))
    assert looked.errors == []
    assert looked.index.classes == ["1,000", "2,000"]
    assert not any("comma" in note for note in looked.report.notes)


@pytest.mark.parametrize("values", [["0,5", "1", "0,25"], ["1,170", "936", "1,234,567"]])
def test_a_header_above_numbers_with_commas_is_recognised(look, values):
    rows = [f'"{values[i % 3]}";{i * 7 % 11};{"ab"[i % 2]}' for i in range(40)]
    looked = look("\n".join(["groesse;gewicht;farbe", *rows]))
    assert looked.errors == []
    assert looked.table.column_names[:2] == ["groesse", "gewicht"]
    assert looked.index.num_train + looked.index.num_test == 40


def test_a_first_row_of_numbers_with_decimal_commas_is_not_a_header(look):
    lines = [f"0,{i % 9}5;{i * 7 % 11},25;{'ab'[i % 2]}" for i in range(40)]
    looked = look("\n".join(lines))
    assert looked.errors == []
    assert looked.index.num_train + looked.index.num_test == 40


@pytest.mark.parametrize(
    ("written", "marked", "other", "is_refused"),
    [
        (["€40,400", "€53,300.00", "€ 32.000", "23300"], "€ 32.000", "€40,400", True),
        (["40.400 EUR", "53.300,00 EUR", "32,000 EUR"], "32,000 EUR", "40.400 EUR", True),
        (["1,234,567", "32.000"], "32.000", "1,234,567", True),
        (["1.234", "1,234.5"], "1.234", "1,234.5", False),
        (["1.234.567,5", "936,125"], "936,125", "1.234.567,5", False),
    ],
)
def test_two_marks_that_may_separate_thousands_are_refused_or_warned_of(
    look, amounts, written, marked, other, is_refused
):
    looked = look(amounts(*written), target="price", task="tabular-regression")
    if is_refused:
        assert looked.codes == ["ambiguous_numbers"]
        (found,) = looked.errors
        assert found.path == f"line {2 + written.index(marked)}"
        assert f"'{other}' (line {2 + written.index(other)})" in found.message
    else:
        assert looked.errors == []
        (found,) = [one for one in looked.report.warnings if one.code == "doubtful_thousands"]
        assert f"in '{other}'" in found.message
    assert f"in '{marked}'" in found.message
    assert "write all numbers in one way" in found.message


@pytest.mark.parametrize(
    "written",
    [
        ["€1.299", "€1,234.567"],  # three decimals elsewhere
        ["€1.299", "€1,234.50", "€0.125"],
        ["1,170", "0.5"],
        ["1,234.50", "32.00"],
        ["1.234", "5.678"],
    ],
)
def test_decimals_that_the_column_shows_are_not_doubted(look, amounts, written):
    looked = look(amounts(*written))
    assert looked.errors == []
    assert not any(one.code == "doubtful_thousands" for one in looked.report.warnings)


def test_setting_the_decimal_mark_accepts_two_marks(look, amounts):
    looked = look(amounts("€53,300.00", "€32.000"), decimal=".")
    assert numbers(looked) == {53300, 32}


@pytest.mark.parametrize(("hours", "is_doubted"), [("1.095 h", True), ("0.5 h", False)])
def test_a_point_is_doubted_where_other_columns_contradict_each_other(look, hours, is_doubted):
    hour = [hours, "976 h"]
    rows = [f"{i * 7 % 11},5;{hour[i % 2]};€53,30{i % 9}.00;{'aab'[i % 3]}" for i in range(40)]
    looked = look("\n".join(["size;hours;price;label", *rows]))
    assert numbers(looked, "hours") == {float(hours[:-2]), 976}
    found = [one.message for one in looked.report.warnings if one.code == "doubtful_thousands"]
    assert len(found) == is_doubted
    assert not found or "column hours: '1.095 h' was read as 1.095, but three digits" in found[0]
