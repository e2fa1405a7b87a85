import pytest

from redkiln.cli.arguments.option_names import as_options


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("to change it: target=NAME", "to change it: --target NAME"),
        ("(missing=- missing='n/a')", "(--missing - --missing 'n/a')"),
        ("column=built=categorical or column=x=ignored",
         "--column built=categorical or --column x=ignored"),
        ("decimal=. or decimal=,", "--decimal . or --decimal ,"),
        ("skip them (skip_bad=9)", "skip them (--skip-bad 9)"),
        ("again with labels_separator=';'", "again with --labels-separator ';'"),
        ("column=text=ignored", "--column text=ignored"),
    ],
)  # fmt: skip
def test_parameters_of_the_api_become_options(advice, expected):
    assert as_options(advice) == expected


@pytest.mark.parametrize("text", ["my_target=3", "'task=x'", "--text=a", "a text = b", "?name=a"])
def test_other_texts_stay_as_they_are(text):
    assert as_options(text) == text
