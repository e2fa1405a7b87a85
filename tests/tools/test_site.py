"""The generated pages of the site, and its navigation."""

import re
from pathlib import Path

import pytest
import yaml

from redkiln.cli.tasks import schema_fields
from redkiln.tasks import TASKS, task_schema
from service.app import create_app
from service.settings import Settings
from tools.site import api, job_spec

ROOT = Path(__file__).parents[2]
UNLISTED = {"docs/decisions"}
"""Folders whose pages are reached from their README."""


@pytest.fixture(scope="module")
def api_page():
    return api.build_page()


def test_the_committed_job_spec_reference_is_what_the_schemas_say():
    page = (ROOT / "docs" / "reference" / "job-spec.md").read_text()
    assert page == job_spec.build_page(), (
        "run `make reference` and commit docs/reference/job-spec.md"
    )


@pytest.mark.parametrize("task", TASKS)
def test_the_job_spec_reference_has_every_field_of_a_task(task):
    page = job_spec.build_page()
    shared, own = page.partition("\n## image-classification\n")[0], section(page, f"## {task}")
    for field in schema_fields(task_schema(task)):
        row = f"| `{field.path}` |"
        assert row in shared or row in own, field.path


def test_every_field_with_a_link_to_the_guide_exists():
    paths = {field.path for task in TASKS for field in schema_fields(task_schema(task))}
    assert job_spec.MORE.keys() <= paths


def test_every_field_of_a_spec_has_a_description():
    missing = {
        field.path
        for task in TASKS
        for field in schema_fields(task_schema(task))
        if not field.description and field.path != "task"
    }
    assert not missing


def test_the_api_reference_has_every_endpoint(api_page, tmp_path):
    paths = create_app(Settings(state_dir=tmp_path)).openapi()["paths"]
    endpoints = {
        f"### `{method.upper()} {path}`"
        for path, methods in paths.items()
        for method in methods
        if method != "head"
    }
    assert endpoints == set(re.findall(r"^### `[A-Z]+ .*`$", api_page, re.M))


def test_every_object_that_the_api_reference_links_to_has_a_heading(api_page):
    headings = {heading.lower() for heading in re.findall(r"^### ([\w-]+)$", api_page, re.M)}
    assert set(re.findall(r"\]\(#([^)]+)\)", api_page)) <= headings


def test_an_attribute_of_a_docstring_describes_its_field():
    description = "A job.\n\nAttributes:\n    step: Where it\n        is.\n    name: Its name."
    assert api.split_attributes(description) == (
        "A job.",
        {"step": "Where it is.", "name": "Its name."},
    )


def test_the_navigation_lists_every_page_once():
    listed = list(pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert len(listed) == len(set(listed))
    docs = {str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")}
    reached = {page for page in docs for folder in UNLISTED if page.startswith(f"{folder}/")}
    assert docs - reached <= set(listed)


def pages_of(node):
    if isinstance(node, str):
        yield node
    else:
        for child in node.values() if isinstance(node, dict) else node:
            yield from pages_of(child)


def section(page, heading):
    return page.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
