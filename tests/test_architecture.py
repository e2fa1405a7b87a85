"""The arrows of docs/architecture.md, held by the imports as they are written."""

import ast
import graphlib
import re
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from redkiln.tasks import TASKS

ROOT = Path(__file__).parents[1]

TRAINING = {"worker.trainer", "worker.export", "worker.tasks"}
CLIENTS = {"celery", "kombu", "redis", "httpx", "redkiln.client", "worker.agent"}
JOBS = {"worker.jobdir", "worker.script", "worker.hardware", *CLIENTS, *TRAINING}
"""What a room may not import that knows no job."""

FORBIDDEN = {
    "redkiln": {"service", "worker", "native", "torch", "fastapi", "celery", "sqlmodel"},
    "service": {"worker", "native", "torch"},
    "worker": {"service", "native", "fastapi", "starlette", "sqlmodel", "sqlalchemy"},
    "docker": {"redkiln", "service", "worker", "native", "torch", "pydantic"},
    "worker/agent": {"torch", *TRAINING},
    "worker/app.py": {"torch", *TRAINING},
    "worker/hardware": {"worker.agent", "worker.process", "httpx", "celery", *TRAINING},
    "worker/process": {"torch", "worker.script", *CLIENTS, *TRAINING},
    "worker/checkpoints": {"worker.script", "worker.hardware", *CLIENTS, *TRAINING},
    "worker/onnx_module": {
        "worker.jobdir",
        "worker.script",
        "worker.hardware",
        *CLIENTS,
        *TRAINING,
    },
    "worker/qat": {"worker.jobdir", "worker.script", "worker.hardware", *CLIENTS, *TRAINING},
    "worker/tfevents": {"torch", "worker.jobdir", "worker.script", *CLIENTS, *TRAINING},
    "worker/results": {"torch", "worker.script", "worker.hardware", *CLIENTS, *TRAINING},
    "worker/trainer": {"worker.script", *CLIENTS},
    "worker/export": {"worker.script", "worker.hardware", *CLIENTS},
    "worker/tasks": {"worker.script", *CLIENTS},
    "worker/script": {"torch", "worker.export", "worker.tasks", *CLIENTS},
}

SEAMS = {
    ("worker.trainer.run", "worker.export.rehearsal"),
    ("worker.trainer.run", "worker.export.remote_rehearsal"),
    ("worker.trainer.fine_tuning", "worker.export.rehearsal"),
    ("worker.trainer.fine_tuning", "worker.export.variants.fine_tuned"),
    ("worker.export.card.mistakes_section", "worker.trainer.insight.preview_picture"),
    ("worker.export.card.mistakes_section", "worker.trainer.insight.shown"),
    ("worker.trainer.setup", "worker.export.exportable"),
    ("worker.trainer.__main__", "worker.tasks.train"),
    ("worker.export.__main__", "worker.tasks.export"),
    ("worker.script.program.program", "worker.trainer.images.sources.builtins"),
    ("worker.script.program.program", "worker.trainer.tables.builtins"),
}
"""The only imports across the rooms of training, each named in docs/architecture.md: what is to be
exported, the tasks that the two entry points plug in, and the built-in sets that scripts read."""

MOST_FILES = 21
"""Python files that a folder has by itself, `__init__.py` among them."""

CLIENT_LIBRARIES = {
    "pydantic", "pydantic_core", "httpx", "httpx_sse", "typer", "rich", "yaml", "pathspec",
    "redkiln",
}  # fmt: skip
"""All that a user's machine needs in addition to the standard library."""

PREDICT_LIBRARIES = {
    "numpy", "PIL", "onnxruntime", "tokenizers", "cryptography", "faster_coco_eval",
}  # fmt: skip
"""What `redkiln/predict` needs in addition, and nothing else may import when it starts."""


@cache
def import_statements(path):
    """Each statement as a module (None for `import a, b`) and the names that it imports."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            found.append((None, [alias.name for alias in node.names]))
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.append((node.module, [f"{node.module}.{alias.name}" for alias in node.names]))
    return found


@cache
def imported_modules(path):
    statements = import_statements(path)
    return {name for module, names in statements for name in (module, *names) if name}


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
"""These run as separate children; the agent imports the rest of the hardware room."""


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


# A client without them does less; it says so.
OPTIONAL_LIBRARIES = {
    "redkiln/tasks/script.py": {"re2"},
    "redkiln/predict/session.py": {"onnxruntime_extensions"},
    "redkiln/predict/labelled/builtins.py": {"sklearn"},
}


def test_what_users_install_needs_only_its_declared_libraries():
    found = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("redkiln")
        for module in imported_modules(path)
        if module.split(".")[0] not in allowed_libraries(path) | set(sys.stdlib_module_names)
    }
    assert not found


def allowed_libraries(path):
    is_predict = path.is_relative_to(ROOT / "redkiln/predict")
    own = OPTIONAL_LIBRARIES.get(str(path.relative_to(ROOT)), set())
    return CLIENT_LIBRARIES | own | (PREDICT_LIBRARIES if is_predict else set())


def test_the_rest_of_what_users_install_starts_without_the_libraries_that_run_models():
    found = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources("redkiln")
        if not path.is_relative_to(ROOT / "redkiln/predict")
        for module in modules_imported_at_start(path)
        if within(module, "redkiln.predict")
    }
    assert not found


def modules_imported_at_start(path):
    """Imports outside of functions and of `if TYPE_CHECKING`."""
    for node in ast.parse(path.read_text(), filename=str(path)).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def test_only_the_queue_knows_celery_in_the_service():
    knowing = {
        str(path.relative_to(ROOT))
        for path in sources("service")
        for module in imported_modules(path)
        if within(module, "celery") or within(module, "kombu")
    }
    assert knowing == {"service/queue.py"}


def test_every_task_of_the_contract_has_a_folder():
    folders = {path.parent.name for path in (ROOT / "worker/tasks").glob("*/__init__.py")}
    names = {name.replace("_", "-") for name in folders - {"imagery", "tabular"}}
    # A script is a program of the user's; the room that runs it needs no torch.
    assert (ROOT / "worker/script/job.py").exists()
    # An export runs another task's code on what a job of that task has left.
    assert set(TASKS) == names | {"script", "export"}


def module_of(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return module.removesuffix(".__init__")


def import_graph(*rooms):
    """Modules, and those that each of them imports, for type checking included."""
    modules = {module_of(path): path for room in rooms for path in sources(room)}
    return {
        module: set(_find_edges(path, modules.keys())) - {module}
        for module, path in modules.items()
    }


def _find_edges(path, modules):
    for module, names in import_statements(path):
        found = modules & set(names)
        yield from found
        # `from package import module` needs no code of the package itself.
        if len(found) < len(names) and module in modules:
            yield module


def test_no_module_imports_itself_through_others():
    graph = import_graph("redkiln", "service", "worker", "native", "docker")
    sorter = graphlib.TopologicalSorter(graph)
    sorter.prepare()  # raises CycleError, which names the circle


def test_trainer_export_scripts_and_tasks_meet_only_at_the_named_seams():
    rooms = ("worker.trainer", "worker.export", "worker.script")
    crossing = {
        (module, imported)
        for module, imports in import_graph("worker").items()
        for imported in imports
        for room in rooms
        if within(module, room)
        and any(within(imported, other) for other in (*rooms, "worker.tasks") if other != room)
    }
    assert crossing == SEAMS


def test_every_seam_is_a_row_of_the_architecture_page():
    text = (ROOT / "docs/architecture.md").read_text()
    rows = re.findall(r"^\| `(worker/\S+)\.py` \| `(worker/\S+)\.py` \|", text, re.M)
    assert {tuple(path.replace("/", ".") for path in row) for row in rows} == SEAMS


@pytest.mark.parametrize(
    "tree", ["redkiln", "service", "worker", "native", "docker", "bench", "tests"]
)
def test_no_folder_is_crowded(tree):
    counts = Counter(path.parent.relative_to(ROOT) for path in sources(tree))
    assert {str(folder): n for folder, n in counts.items() if n > MOST_FILES} == {}


UNMIRRORED = {
    "redkiln/views/access": "only models, which the tests of the service fill",
    "redkiln/views/models": "only models, which the tests of the service fill",
    "service/migrations/versions": "tests/service/migrations runs every revision",
    "worker/export/embedding": "the ONNX files that tests/worker/tasks compare are made by it",
    "worker/tasks/imagery": "the tests of each task with images run it",
    "worker/trainer/dense": "the networks of tests/worker/trainer/{detection,segmentation} are its",
    "worker/tasks/tabular_regression": "tests/worker/tasks/tabular has the tests of both tasks",
}
"""Rooms without a folder of tests, and what tests their code."""


def test_tests_mirror_the_rooms():
    rooms = {
        str(path.parent.relative_to(ROOT))
        for tree in ("redkiln", "service", "worker", "native")
        for path in sources(tree)
        if path.name != "__init__.py"
    }
    assert {room for room in rooms if not (ROOT / "tests" / room).is_dir()} == UNMIRRORED.keys()


def test_no_room_is_a_catch_all():
    names = {"utils", "helpers", "common", "manager", "misc"}
    found = [
        path
        for room in ("redkiln", "service", "worker", "native", "docker")
        for path in sources(room)
        if path.stem in names
    ]
    assert not found
