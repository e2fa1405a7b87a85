"""Every error has a code that the service explains, at the URL of its `type`."""

import ast
from pathlib import Path

import service
from service import errors
from service.http.problem_codes import CODES

ROOT = Path(service.__file__).parent
CLASSES = {name: item for name, item in vars(errors).items() if hasattr(item, "default_code")}
NAMES = CLASSES.keys() | {"build_problem"}


def codes_in(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in NAMES:
            for keyword in node.keywords:
                if keyword.arg == "code" and isinstance(keyword.value, ast.Constant):
                    yield keyword.value.value


def test_the_service_explains_every_code_that_it_sends():
    sent = {code for path in ROOT.rglob("*.py") for code in codes_in(path)}
    sent |= {item.default_code for item in CLASSES.values()}
    assert len(sent) > 50
    assert sent - CODES.keys() == set()


def test_the_type_of_a_problem_leads_to_its_explanation(client):
    problem = client.get("/v1/jobs/job_none").json()
    path, _, anchor = problem["type"].partition("#")
    assert anchor == problem["code"] == "not_found"
    page = client.get(path)
    assert page.status_code == 200
    assert f'id="{anchor}"' in page.text
    assert all(f'id="{code}"' in page.text for code in CODES)
