"""The arrows of docs/architecture.md, held by the imports as they are written."""

import ast
import sys
from pathlib import Path

import pytest

from redkiln.tasks import TASKS

ROOT = Path(__file__).parents[1]

FORBIDDEN = {
    "redkiln": {"service", "worker", "native", "torch", "fastapi", "celery", "sqlmodel"},
    "service": {"worker", "native", "torch"},
    "worker": {"service", "native", "fastapi", "starlette", "sqlmodel", "sqlalchemy"},
    "docker": {"redkiln", "service", "worker", "native", "torch", "pydantic"},
    "worker/agent": {"torch", "worker.trainer", "worker.export"},
    "worker/app.py": {"torch", "worker.trainer", "worker.export"},
    "worker/hardware": {"worker.agent", "worker.trainer", "worker.export", "httpx", "celery"},
    "worker/trainer": {"celery", "kombu", "redis", "httpx", "redkiln.client", "worker.agent"},
    "worker/script": {"torch", "celery", "kombu", "redis", "httpx", "redkiln.client"},
    "worker/export": {"celery", "kombu", "redis", "httpx", "redkiln.client", "worker.agent"},
}

CLIENT_LIBRARIES = {
    "pydantic", "pydantic_core", "httpx", "typer", "rich", "yaml", "pathspec", "redkiln",
}  # fmt: skip
"""All that a user's machine needs beside the standard library; pydantic brings its core along."""


def imported_modules(path):
    tree = ast.parse(path.read_text(), filename=str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def sources(room):
    path = ROOT / room
    return [path] if path.is_file() else sorted(path.rglob("*.py"))


def within(module, package):
    return module == package or module.startswith(package + ".")


@pytest.mark.parametrize("room", FORBIDDEN)
def test_no_import_runs_against_the_arrows(room):
    files = sources(room)
    assert files
    found = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in files
        for module in imported_modules(path)
        if any(within(module, package) for package in FORBIDDEN[room])
    }
    assert not found


TORCH_ROOMS = ("worker/hardware/selftest", "worker/hardware/benchmark")
"""Children of their own: everything else of the hardware room is read by the agent, too."""


def test_the_hardware_room_reads_files_and_opens_no_device():
    found = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("worker/hardware")
        if not str(path.relative_to(ROOT)).startswith(TORCH_ROOMS)
        for module in imported_modules(path)
        if within(module, "torch") or any(within(module, _package(room)) for room in TORCH_ROOMS)
    }
    assert not found


def _package(room):
    return room.replace("/", ".")


def test_what_users_install_needs_only_its_declared_libraries():

    found = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("redkiln")
        for module in imported_modules(path)
        if module.split(".")[0] not in CLIENT_LIBRARIES | set(sys.stdlib_module_names)
    }
    assert not found


def test_only_the_queue_knows_celery_in_the_service():
    knowing = {
        str(path.relative_to(ROOT))
        for path in sources("service")
        for module in imported_modules(path)
        if within(module, "celery") or within(module, "kombu")
    }
    assert knowing == {"service/queue.py"}


def test_every_task_of_the_contract_has_a_trainer():
    rooms = {path.stem.replace("_", "-") for path in sources("worker/trainer/tasks")}
    # A script is run by a program of the user's; the room beside the trainer's stays with it.
    assert (ROOT / "worker/script/job.py").exists()
    assert set(TASKS) == rooms - {"--init--"} | {"script"}


def test_no_room_is_a_catch_all():
    names = {"utils", "helpers", "common", "manager", "misc"}
    found = [
        path
        for room in ("redkiln", "service", "worker", "native", "docker")
        for path in sources(room)
        if path.stem in names
    ]
    assert not found
