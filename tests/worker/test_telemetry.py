"""ONNX Runtime sends no data about its use, whichever part of Redkiln runs a model."""

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from worker.agent.children.environment import build_child_environment
from worker.script.program.variables import is_passed_on
from worker.tasks.image_classification.card import USAGE as IMAGES
from worker.tasks.text_classification.card import USAGE as TEXTS

ROOT = Path(__file__).parents[2]
VARIABLE = "ORT_DISABLE_TELEMETRY"
RUN = """
import sys
{first}
import onnxruntime
onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Identity", ["x"], ["y"])
    graph = helper.make_graph([node], "identity", [value], [result])
    opset = helper.make_opsetid("", 20)
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


def traces_of(first, model, home):
    """Load a model in a new process and return the files that ONNX Runtime left at home."""
    home.mkdir()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    command = [sys.executable, "-c", RUN.format(first=first), str(model)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    return [path.name for path in home.rglob("*") if path.is_file()]


@pytest.mark.parametrize("package", ["worker", "worker.export.onnx_file", "native"])
def test_a_process_that_loads_a_model_keeps_no_data_to_send(model, tmp_path, package):
    # Without the variable there is an id of the device, and what waits to be sent.
    assert traces_of("", model, tmp_path / "without")
    assert traces_of(f"import {package}", model, tmp_path / "with") == []


@pytest.mark.parametrize("package", ["redkiln.predict.session", "service.predictions.__main__"])
def test_predictions_keep_no_data_to_send(model, tmp_path, package):
    first = f"import {package}, pathlib\nfrom redkiln.predict.session import open_session\n"
    assert traces_of(f"{first}open_session(pathlib.Path(sys.argv[1]))", model, tmp_path / "h") == []


def test_trainers_exporters_and_scripts_inherit_the_variable():
    assert os.environ[VARIABLE] == "1"
    child = build_child_environment(os.environ, device={}, threads=1)
    assert child[VARIABLE] == "1"
    assert is_passed_on(VARIABLE)


@pytest.mark.parametrize("code", [IMAGES, TEXTS], ids=["images", "texts"])
def test_the_code_in_reports_sets_the_variable_before_the_import(code):
    before, _, _ = code.partition("import onnxruntime")
    assert f'os.environ["{VARIABLE}"] = "1"' in before


@pytest.mark.parametrize("name", ["service", "worker"])
def test_programs_in_the_images_send_nothing(name):
    text = (ROOT / "docker" / f"{name}.Dockerfile").read_text()
    stages = [stage for stage in text.split("\nFROM ") if "\nENTRYPOINT" in stage]
    assert stages
    assert all(f"{VARIABLE}=1" in stage for stage in stages)
