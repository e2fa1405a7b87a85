"""How errors of the service look in a terminal."""

import io

import pytest
from rich.console import Console

from redkiln.cli.problems import print_error
from redkiln.errors import ApiError, ErrorItem, Problem

MISTAKE = ErrorItem(pointer="/training/sed", code="unknown_field", message="unknown field 'sed'")


@pytest.mark.parametrize(
    ("problem", "printed"),
    [
        (
            Problem(title="Conflict", status=409, code="ended", detail="job_1 has ended"),
            "Error: job_1 has ended\n",
        ),
        (
            Problem(
                title="The spec is wrong",
                status=422,
                code="invalid_spec",
                detail="/training/sed: unknown field 'sed'",
                errors=[MISTAKE],
            ),
            "Error: The spec is wrong\n  /training/sed: unknown field 'sed'\n",
        ),
        (
            Problem(title="Unprocessable Content", status=422, code="invalid", errors=[MISTAKE]),
            "Error: the request is wrong\n  /training/sed: unknown field 'sed'\n",
        ),
        (Problem(title="Gone", status=410, code="gone"), "Error: refused (Gone)\n"),
        (
            Problem(
                title="Not Found",
                status=404,
                code="not_found",
                detail="there is no job 'x'; GET /v1/jobs lists the jobs with their ids",
            ),
            "Error: there is no job 'x'; `redkiln jobs` lists the jobs with their ids\n",
        ),
        (
            Problem(
                title="Service Unavailable",
                status=503,
                code="busy",
                detail="try again",
                request_id="req_1",
            ),
            "Error: Service Unavailable (503): try again\nrequest req_1\n",
        ),
        (
            Problem(title="Not Found", status=404, code="http", detail="no such page"),
            "Error: Not Found (404): no such page\n",
        ),
    ],
)
def test_an_error_says_what_is_wrong_and_its_status_only_where_that_helps(problem, printed):
    out = io.StringIO()
    print_error(Console(file=out, width=80), ApiError.of(problem))
    assert out.getvalue() == printed
