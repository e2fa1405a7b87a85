from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from worker.export import run
from worker.export.outputs import Outputs
from worker.export.parity import GateResult
from worker.export.variants import slimming
from worker.export.variants.slimming import Slimming, slim
from worker.jobdir import JobDir

PLAIN = SimpleNamespace(answers=None)


@pytest.fixture
def path(tmp_path):
    """A file with a repeated node and one that does nothing."""
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Mul", ["same", "w"], ["first"]),
        helper.make_node("Mul", ["same", "w"], ["second"]),
        helper.make_node("Add", ["first", "second"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    ends = [[value(name, TensorProto.FLOAT, ["batch", 3])] for name in ("x", "y")]
    weights = [numpy_helper.from_array(np.float32([1, 2, 3]), "w")]
    graph = helper.make_graph(nodes, "tiny", *ends, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    model.metadata_props.add(key="classes", value='["a"]')
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def run_file(path):
    session = onnxruntime.InferenceSession(path)
    (outputs,) = session.run(["y"], {"x": np.eye(3, dtype=np.float32)})
    return outputs.tolist(), session.get_modelmeta().custom_metadata_map


def test_a_cleaned_file_is_smaller_and_has_the_same_outputs_and_metadata(path):
    before = run_file(path)
    found = slim(path, PLAIN)
    assert found.kept
    assert found.num_nodes[1] < found.num_nodes[0] == 4
    assert found.size_bytes == (found.size_bytes[0], path.stat().st_size)
    assert run_file(path) == before


def test_a_file_that_cannot_be_cleaned_stays_as_it_is(path, monkeypatch):
    content = path.read_bytes()
    assert slim(path, SimpleNamespace(answers="boxes")).reason == (
        "files that return boxes or masks are not slimmed; the check needs their internal values"
    )
    monkeypatch.setattr(slimming, "_slim", lambda model: model)
    assert "the cleaned file is not smaller" in slim(path, PLAIN).describe()

    def fail(_model):
        raise RuntimeError("no shapes\nand more")

    monkeypatch.setattr(slimming, "_slim", fail)
    assert slim(path, PLAIN).reason == "onnxslim failed: RuntimeError: no shapes"
    assert path.read_bytes() == content


def test_a_cleaned_file_that_misses_the_gate_is_replaced_by_the_one_before(path, monkeypatch):
    content = path.read_bytes()
    outputs = Outputs(JobDir(path.parent / "job"))
    outputs.path("model.onnx").write_bytes(content)

    def spoil(path, _exportable):
        path.write_bytes(b"wrong")
        return Slimming(kept=True)

    def judge(_context, read):
        is_right = read == content
        return GateResult(verified=is_right, misses=[] if is_right else ["it is wrong"])

    monkeypatch.setattr(run, "slim", spoil)
    monkeypatch.setattr(run, "check_loads", lambda _path: None)
    monkeypatch.setattr(run, "_evaluate", lambda _context, path, _log: path.read_bytes())
    monkeypatch.setattr(run, "_judge", judge)
    export = SimpleNamespace(slim=True)
    target = SimpleNamespace(embedding=None, exportable=PLAIN, spec=SimpleNamespace(export=export))
    finished = run._finish_model(SimpleNamespace(target=target), outputs, None)
    assert finished.verdict.verified
    assert finished.slimming == Slimming(kept=False, reason="it is wrong")
    assert outputs.path("model.onnx").read_bytes() == content


def test_a_cleaned_file_that_cannot_be_loaded_is_replaced_by_the_one_before(path, monkeypatch):
    content = path.read_bytes()
    outputs = Outputs(JobDir(path.parent / "job"))
    outputs.path("model.onnx").write_bytes(content)

    def spoil(path, _exportable):
        path.write_bytes(b"wrong")
        return Slimming(kept=True)

    monkeypatch.setattr(run, "slim", spoil)
    monkeypatch.setattr(run, "_evaluate", lambda _context, path, _log: path.read_bytes())
    monkeypatch.setattr(run, "_judge", lambda *_: GateResult(verified=True, misses=[]))
    export = SimpleNamespace(slim=True)
    target = SimpleNamespace(embedding=None, exportable=PLAIN, spec=SimpleNamespace(export=export))
    finished = run._finish_model(SimpleNamespace(target=target), outputs, None)
    assert not finished.slimming.kept
    assert "cannot load the file" in finished.slimming.reason
    assert outputs.path("model.onnx").read_bytes() == content
