import pytest

from redkiln.cells.amounts import Amount, describe_doubt, read_amount


@pytest.mark.parametrize(
    ("text", "unit", "decimal", "number"),
    [
        ("€60.50", "€", ".", 60.5),
        (" 1,234.5 € ", "€", ".", 1234.5),
        ("-€ 7", "€", ".", -7),
        ("1.234,5", "", ",", 1234.5),
        ("1.234.567", "", ",", 1234567),
        ("12", "$", ".", 12),
        ("5e-3", "", ".", 0.005),
        ("54%", "%", ".", 54),
        ("1,234", "$", ".", 1234),
        ("1951.72 EUR", "€", ".", 1951.72),
        ("EUR 1,951.72", "€", ".", 1951.72),
        ("-5USD", "$", ".", -5),
        ("€143,-", "€", ",", 143),
        ("1.299,\u2013 €", "€", ",", 1299),
        ("143,-- EUR", "€", ",", 143),
        ("-143.-", "", ".", -143),
        ("5.5 km", "km", ".", 5.5),
        ("5km", "km", ".", 5),
        ("1 day", "days", ".", 1),
        ("2 days", "days", ".", 2),
        ("1.200 m²", "m²", ",", 1200),
    ],
)
def test_amounts_are_read_as_the_training_table_writes_them(text, unit, decimal, number):
    for separates in (True, None):
        given = {"unit": unit, "decimal": decimal, "separates_thousands": separates}
        assert read_amount(text, **given) == Amount(number)


@pytest.mark.parametrize(
    ("text", "decimal", "number", "advice"),
    [
        ("€60,50", ".", 60.5, "writes decimals after a point; write '€60.50'"),
        ("1.234,56 €", ".", 1234.56, "writes decimals after a point; write '1,234.56 €'"),
        ("60.50", ",", 60.5, "writes decimals after a comma; write '60,50'"),
        ("€1,234", ".", 1234, "does not separate thousands; write '€1234' or '€1.234'"),
        ("3.125", ",", 3125, "does not separate thousands; write '3125' or '3,125'"),
    ],
)
def test_amounts_that_may_be_meant_otherwise_are_read_with_a_doubt(text, decimal, number, advice):
    found = read_amount(text, unit="€", decimal=decimal, separates_thousands=False)
    assert found.number == number
    said = f"{text!r} was read as {number}, although the training table {advice}"
    assert describe_doubt(text, found) == said


@pytest.mark.parametrize(
    "text",
    [
        "",
        "€",
        "$5",
        "1,2,3",
        "12 or so",
        "1 234",
        "nan",
        "--5",
        "5%",
        "5 USD",
        "5 EURO",
        "5-",
        ",-",
    ],
)
def test_what_is_not_a_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a number"):
        read_amount(text, unit="€", decimal=".")


@pytest.mark.parametrize(
    ("text", "advice"),
    [("54", "write '54%'"), ("0.07", "write '0.07%' or '7%'"), ("1", "write '1%' or '100%'")],
)
def test_a_number_without_the_percent_sign_of_the_training_table_has_a_doubt(text, advice):
    found = read_amount(text, unit="%", decimal=".")
    doubt = "the training table writes % after the numbers"
    assert found == Amount(float(text), doubt, advice)


def test_thousands_with_several_separators_are_certain():
    given = {"unit": "", "decimal": ".", "separates_thousands": False}
    assert read_amount("1,234,567", **given) == Amount(1234567)
    assert read_amount("1,234.0", **given) == Amount(1234)
