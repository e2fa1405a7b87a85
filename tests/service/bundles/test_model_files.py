"""ONNX files that users upload, checked in a separate process."""

import hashlib

import onnx
import pytest
from onnx import TensorProto, helper

from service.bundles.onnx_check import find_problem


def build(op="Relu", domain=""):
    nodes = [helper.make_node(op, ["x"], ["y"], domain=domain)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    imports = [helper.make_opsetid("", 20), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=imports)


def put(client, content):
    sha256 = hashlib.sha256(content).hexdigest()
    return client.put(f"/v1/models/{sha256}", content=content)


def spec(sha256):
    return {"dataset": "builtin:digits", "model": {"source": "onnx", "file": sha256}}


def test_a_job_must_name_a_stored_file(client):
    content = build().SerializeToString()
    sha256 = hashlib.sha256(content).hexdigest()
    response = client.post("/v1/jobs", json=spec(sha256))
    (problem,) = response.json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/model/file", "unknown_file")
    assert put(client, content).status_code == 201
    assert client.get(f"/v1/models/{sha256}").json()["size_bytes"] == len(content)
    assert client.post("/v1/jobs", json=spec(sha256)).status_code == 202


def test_an_unknown_operator_is_refused_by_name_at_upload(client):
    content = build("Fancy", "com.example").SerializeToString()
    response = put(client, content)
    assert response.status_code == 422
    assert response.json()["code"] == "unsupported_onnx"
    assert "com.example:Fancy" in response.json()["detail"]
    assert client.get(f"/v1/models/{hashlib.sha256(content).hexdigest()}").status_code == 404


def test_a_file_with_tensors_elsewhere_is_refused():
    model = build()
    tensor = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    assert "outside of the file" in find_problem(model.SerializeToString())


def test_too_many_nodes_are_refused():
    model = build()
    model.graph.node.extend([model.graph.node[0]] * 60_000)
    assert "more than 50,000 nodes" in find_problem(model.SerializeToString())


@pytest.mark.parametrize(
    "content", [b"hello", onnx.ModelProto().SerializeToString() or b"\x08\x01"]
)
def test_what_is_not_onnx_is_refused(content):
    assert "ONNX" in find_problem(content)
