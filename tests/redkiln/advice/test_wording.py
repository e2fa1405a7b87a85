import re

import pytest
from typer.main import get_command

from redkiln.advice.wording import REQUESTS, as_arguments, as_options
from redkiln.cli.app import build_app
from redkiln.client import Client
from redkiln.errors import ApiError, DatasetInvalid, Problem
from redkiln.views.dataset import DatasetView


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
        ("push the table again to train without it: column=tax=ignored",
         "to train without it: redkiln train FILE --column tax=ignored"),
        (("push the table again to train without it: target=y header=false "
          "missing='' column=b=ignored"),
         ("to train without it: redkiln train FILE --target y --no-header --missing '' "
          "--column b=ignored")),
        ("POST /v1/datasets?header=true", "redkiln datasets push FILE --header"),
        ("there is no job 'x'; GET /v1/jobs lists the jobs with their ids",
         "there is no job 'x'; `redkiln jobs` lists the jobs with their ids"),
        ("first: redkiln models delete no-show 1", "first: redkiln models delete no-show 1"),
        ("GET /v1/datasets/ds_1 shows why", "`redkiln datasets show ds_1` shows why"),
        ("GET /v1/datasets/{id} lists the first 9 under `pairs`",
         "`redkiln datasets check NAME --pairs` lists the first 9"),
    ],
)  # fmt: skip
def test_parameters_of_the_api_become_options(advice, expected):
    assert as_options(advice) == expected


@pytest.mark.parametrize(
    ("advice", "expected"),
    [
        ("to change it: target=NAME", 'to change it: target="NAME"'),
        ("(missing=- missing='n/a'), or", '(missing=["-", "n/a"]), or'),
        ("missing='' (only empty fields)", "missing=[] (only empty fields)"),
        ("column='year built=categorical' or column=x=ignored; b",
         'columns={"year built": "categorical"} or columns={"x": "ignored"}; b'),
        ("column=a=ignored column=b=ignored", 'columns={"a": "ignored", "b": "ignored"}'),
        ("decimal=. or decimal=,", 'decimal="." or decimal=","'),
        ("skip them (skip_bad=9)", "skip them (skip_bad=9)"),
        ("again with labels_separator=';'", 'again with labels_separator=";"'),
        ("class=NAME", 'classes=["NAME"]'),
        ("POST /v1/datasets?header=true", "client.push_dataset(FILE, header=True)"),
        ("GET /v1/jobs lists", "`client.jobs()` lists"),
        ("GET /v1/datasets/{id} lists all of them under `pairs`",
         "`client.dataset(NAME).warnings` lists all of them under `pairs`"),
        ("push the table again to train without them: column=a=ignored column='b c=ignored'",
         ("push the table again to train without them: "
          'client.push_dataset(FILE, columns={"a": "ignored", "b c": "ignored"})')),
        (("push the table again to train without it: target=y header=false "
          "missing='n.a.' column=b=ignored"),
         ("push the table again to train without it: "
          'client.push_dataset(FILE, target="y", header=False, missing=["n.a."], '
          'columns={"b": "ignored"})')),
        ("push again with delimiter=tab column=a=ignored column=b=numeric ..., or not",
         'push again with delimiter="tab", columns={"a": "ignored", "b": "numeric"}, ..., or not'),
        ("first: redkiln models delete no-show 1", 'first: client.delete_model("no-show", 1)'),
        ("upload it first: PUT /v1/models/0a1b", "upload it first: `client.push_model(FILE)`"),
    ],
)  # fmt: skip
def test_parameters_and_requests_become_arguments_and_calls_in_python(advice, expected):
    assert as_arguments(advice) == expected


@pytest.mark.parametrize("text", ["my_target=3", "'task=x'", "--text=a", "a text = b", "?name=a"])
def test_other_texts_stay_as_they_are(text):
    assert (as_options(text), as_arguments(text)) == (text, text)


def test_every_advised_command_and_call_exists():
    group = get_command(build_app())
    for _, command, call in REQUESTS:
        name = re.search(r"redkiln (\w+)", command)[1]
        assert name in group.commands
        assert hasattr(Client, re.search(r"client\.(\w+)", call)[1])


def test_errors_in_python_name_arguments_and_calls():
    advice = "no text column; set text=NAME"
    view = DatasetView(
        id="ds_1", name="reviews", kind="archive", status="invalid",
        errors=[{"code": "no_text", "message": advice}], created_at="2026-11-28T00:00:00Z",
    )  # fmt: skip
    refused = DatasetInvalid(view)
    assert str(refused) == 'data set reviews is invalid\nno text column; set text="NAME"'
    assert refused.text.endswith(advice)
    problems = [view.errors[0].model_copy(update={"message": f"{number}: {advice}"})
                for number in range(23)]  # fmt: skip
    many = DatasetInvalid(view.model_copy(update={"errors": problems}))
    assert str(many).endswith('19: no text column; set text="NAME"\nand 3 more')
    problem = Problem(title="Not Found", status=404, detail="GET /v1/jobs lists the jobs")
    assert str(ApiError(problem)) == "Not Found (404); `client.jobs()` lists the jobs"
