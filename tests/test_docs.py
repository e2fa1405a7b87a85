"""The documentation names all that there is."""

import ast
import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from redkiln.cli.app import build_app
from redkiln.failure import RETRYABLE, FailureCode
from redkiln.tasks import TASKS, parse_spec, task_schema
from service.app import create_app
from service.settings import Settings
from worker.hardware.facts.targets import load_targets
from worker.settings import WorkerSettings

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
ROOMS = (DOCS, EXAMPLES, ROOT / "bench")
"""Folders with pages."""
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("settings", [Settings, WorkerSettings])
def test_every_setting_is_documented(settings):
    text = (DOCS / "settings.md").read_text()
    missing = [name for name in settings.model_fields if f"`REDKILN_{name.upper()}`" not in text]
    assert not missing


def test_every_documented_variable_exists():
    known = {f"REDKILN_{name.upper()}" for name in Settings.model_fields}
    known |= {f"REDKILN_{name.upper()}" for name in WorkerSettings.model_fields}
    known |= {"REDKILN_URL", "REDKILN_KEY", "REDKILN_KEY_FILE"}
    documented = set(re.findall(r"^\| `(REDKILN_\w+)`", (DOCS / "settings.md").read_text(), re.M))
    assert documented == known


def test_every_public_endpoint_is_documented(tmp_path):
    text = (DOCS / "api.md").read_text()
    paths = create_app(Settings(state_dir=tmp_path)).openapi()["paths"]
    missing = [
        f"{method.upper()} {path}"
        for path, methods in paths.items()
        for method in methods
        if method != "head"
        and not path.startswith(("/v1/attempts/", "/v1/workers/"))
        and f"`{method.upper()} {path}`" not in text
    ]
    assert not missing


def test_every_failure_code_is_documented_with_whether_it_is_tried_again():
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (\w*).*\|$", (DOCS / "api.md").read_text(), re.M))
    assert set(rows) == {str(code) for code in FailureCode}
    for code in FailureCode:
        if code is not FailureCode.SUPERSEDED:
            assert rows[code] == ("yes" if code in RETRYABLE else "no"), code


@pytest.mark.parametrize("task", TASKS)
def test_every_field_of_a_spec_is_documented(task):
    text = (DOCS / "reference" / "job-spec.md").read_text()
    missing = [path for path in field_paths(task_schema(task)) if f"| `{path}` |" not in text]
    assert not missing


SHOWN_DATASETS = {
    "flowers": "image-classification",
    "shapes": "object-detection",
    "street": "semantic-segmentation",
    "cells": "instance-segmentation",
    "sms": "text-classification",
    "builtin:breast-cancer": "tabular-classification",
    "houses": "tabular-regression",
}


def test_every_spec_of_the_guide_is_valid_and_each_task_is_shown():
    blocks = re.findall(r"^```yaml\n(.*?)^```", (DOCS / "job-spec.md").read_text(), re.M | re.S)
    specs = [yaml.safe_load(block) for block in blocks]
    whole = [spec if {"dataset", "task"} & spec.keys() else {"dataset": "flowers"} | spec
             for spec in specs]  # fmt: skip
    shown = {
        parse_spec(spec, default_task=SHOWN_DATASETS.get(spec.get("dataset"))).task
        for spec in whole
    }
    assert shown == set(TASKS)


@pytest.mark.parametrize("target", load_targets().values(), ids=lambda target: target.gfx)
def test_every_target_is_documented_as_the_table_has_it(target):
    text = (DOCS / "hardware.md").read_text()
    rule = target.override
    (row,) = re.findall(rf"^\| {target.gfx} \|.*$", text, re.M)
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:3] == [target.family, target.cards]
    assert ("classic" in cells[3].split("ROCm")[0]) == bool(
        target.in_classic_wheels or target.classic_rocm_until
    )
    assert ("AMD's" in cells[3]) == target.in_therock
    assert cells[4] == target.checked
    assert cells[5:] == [
        "refused" if target.blocking else target.precision,
        f"{rule.value} (as {rule.needs})" if rule.value else "never",
        target.aotriton,
        target.onnx_provider,
        ", ".join(f"`{defect.code}`" for defect in target.defects),
    ]
    for defect in target.defects:
        assert f"| {defect.text} | {defect.fix} | {defect.source} |" in text


def list_pages():
    return [*ROOT.glob("*.md"), *(page for room in ROOMS for page in room.rglob("*.md"))]


def test_links_between_pages_lead_somewhere():
    pages = list_pages()
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if not (page.parent / target).exists()
    ]
    assert {room for room in ROOMS for page in pages if room in page.parents} == set(ROOMS)
    assert not broken


def shown_commands():
    """Each `redkiln ...` line of a page's code and of an example's comments, with its place."""
    for page in list_pages():
        for block in re.findall(r"^```.*?^```", page.read_text(), re.M | re.S):
            for line in re.findall(r"^\s*(?:\S+/)?redkiln (.*)", block, re.M):
                yield page.relative_to(ROOT), line
    for spec in EXAMPLES.glob("*.yaml"):
        for line in re.findall(r"^#.*?(?<![`/])\bredkiln (.*)", spec.read_text(), re.M):
            yield spec.relative_to(ROOT), line


def test_every_command_that_is_shown_is_one():
    runner, app = CliRunner(), build_app()
    shown = list(shown_commands())
    wrong = []
    for place, line in shown:
        words = shlex.split(line, comments=True)
        # The rest belongs to the user's program, or to the shell.
        ends = [words.index(word) for word in ("--", ">", "|") if word in words]
        answer = runner.invoke(app, [*words[: min(ends, default=None)], "--help"])
        if answer.exit_code:
            wrong.append(f"{place}: redkiln {line}: {answer.output[-300:]}")
    assert {Path("README.md"), Path("docs/tables.md"), Path("examples/sms.yaml")} <= dict(
        shown
    ).keys()
    assert not wrong


def test_every_example_shows_how_it_is_queued():
    for spec in EXAMPLES.glob("*.yaml"):
        assert f"redkiln submit examples/{spec.name} --watch" in spec.read_text()


def list_rooms(folder):
    return {f"{path.parent.relative_to(ROOT)}" for path in (ROOT / folder).glob("*/__init__.py")}


def test_every_room_is_described():
    text = (DOCS / "architecture.md").read_text()
    described = re.findall(r"^\| `((?:redkiln|service|worker)/[\w/]+)/` \|", text, re.M)
    folders = ("redkiln", "service", "worker", "worker/agent", "worker/trainer")
    assert sorted(described) == sorted(set().union(*map(list_rooms, folders)))


ANSWER = re.compile(r"^\| [^|]+\? \| `([\w/]+\.py)` \| `([\w.]+)`", re.M)
ANSWERS = ANSWER.findall((DOCS / "architecture.md").read_text())


@pytest.mark.parametrize(("path", "qualified_name"), ANSWERS)
def test_the_answer_to_where_something_is_names_code_that_exists(path, qualified_name):
    nodes = [ast.parse((ROOT / path).read_text())]
    for name in qualified_name.split("."):
        inner = [child for node in nodes for child in ast.iter_child_nodes(node)]
        nodes = [node for node in inner if getattr(node, "name", None) == name]
    assert nodes, f"{path} has no {qualified_name}"


def test_every_question_where_something_is_has_an_answer():
    section = (DOCS / "architecture.md").read_text().partition("## Where to find things")[2]
    rows = [line for line in section.partition("## ")[0].splitlines() if "? |" in line]
    assert len(rows) == len(ANSWERS) >= 5


def field_paths(schema):
    """Paths of a schema's fields, down to what a table row describes."""
    definitions = schema["$defs"]

    def walk(node, path):
        for name, field in node["properties"].items():
            reference = field.get("$ref")
            inner = definitions[reference.rsplit("/", 1)[1]] if reference else None
            if inner is None or set(inner["properties"]) == {"name"}:
                yield f"{path}{name}"
            else:
                yield from walk(inner, f"{path}{name}.")

    return list(walk(schema, ""))
