"""ONNX files that users upload, checked in a separate process."""

import hashlib
import pickle

import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

from service.bundles.onnx_check import find_classifier, find_problem


def build(op="Relu", domain=""):
    nodes = [helper.make_node(op, ["x"], ["y"], domain=domain)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in "xy"]
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


OLD = {"Reshape": 4, "Upsample": 7}


@pytest.mark.parametrize("name", OLD)
def test_a_form_of_an_operator_that_is_too_old_is_refused_at_upload(name):
    model = build(name)
    model.opset_import[0].version = OLD[name]
    assert f"{name} of operator set" in find_problem(model.SerializeToString())


def test_a_cycle_is_refused_at_upload():
    model = build()
    model.graph.node.insert(0, helper.make_node("Add", ["x", "y"], ["z"], name="first"))
    assert "node first reads 'y'" in find_problem(model.SerializeToString())


def test_a_subgraph_reads_what_is_around_it():
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[1] x, bool c) => (float[1] y) {'
        "a = Relu (x) y = If (c) <then_branch = t () => (float[1] u) {u = Neg (a)},"
        "else_branch = e () => (float[1] v) {v = Abs (a)}> }"
    )
    assert find_problem(model.SerializeToString()) is None


def test_files_of_an_old_torch_save_are_accepted():
    # What torch.save wrote before its files were zips: a pickled magic number comes first.
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)
    assert find_problem(magic + pickle.dumps(1001, protocol=2)) is None


def change_type(model, element_type):
    model.graph.input[0].type.tensor_type.elem_type = element_type


REFUSED = {
    "the input is int64": lambda model: change_type(model, TensorProto.INT64),
    "the input is float16": lambda model: change_type(model, TensorProto.FLOAT16),
    "2 inputs": lambda model: model.graph.input.add(name="more"),
    "only square images": lambda model: (
        model.graph.input[0].type.tensor_type.shape.dim[3].ClearField("dim_value")
    ),
    "quantised by the node DynamicQuantizeLinear (a)": lambda model: model.graph.node.append(
        helper.make_node("DynamicQuantizeLinear", ["y"], ["a", "b", "c"])
    ),
    "'w' is in half precision": lambda model: model.graph.initializer.add(
        name="w", data_type=TensorProto.FLOAT16, dims=[0]
    ),
}


def in_a_branch(body):
    """A graph whose branch has these nodes, after a Relu that makes `y`."""
    parsed = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[1,3,8,8] x, bool c) => (z) {'
        f"z = If (c) <then_branch = t () => (float[1,3,8,8] u) {{{body}}},"
        "else_branch = e () => (float[1,3,8,8] v) {v = Abs (x)}> }"
    )
    return parsed.graph.node


REFUSED_INSIDE = {
    "'k' is in half precision": (
        "k = Constant <value = float16[1] k {1}> ()  l = CastLike (k, x)  u = Mul (x, l)"
    ),
    "half precision": "k = Constant <value = bfloat16[1] {1}> ()  u = Mul (x, x)",
    "quantised by the node QuantizeLinear (q)": "q = QuantizeLinear (x, x)  u = Relu (x)",
}


@pytest.mark.parametrize("reason", REFUSED_INSIDE)
def test_the_error_names_what_is_inside_a_subgraph(reason):
    model = build()
    model.graph.node.extend(in_a_branch(REFUSED_INSIDE[reason]))
    assert reason in find_classifier(model.SerializeToString())


def test_half_precision_in_a_branchs_initialiser_is_refused_by_its_name():
    model = build()
    nodes = in_a_branch("u = Relu (x)")
    nodes[0].attribute[0].g.initializer.add(name="w", data_type=TensorProto.BFLOAT16, dims=[0])
    model.graph.node.extend(nodes)
    assert "'w' is in half precision" in find_classifier(model.SerializeToString())


@pytest.mark.parametrize("reason", REFUSED)
def test_the_error_says_why_a_graph_is_not_a_classifier(reason):
    model = build()
    REFUSED[reason](model)
    assert find_problem(model.SerializeToString()) is None
    assert reason in find_classifier(model.SerializeToString())


def test_a_job_is_refused_at_once_if_its_file_is_not_a_classifier(client):
    model = build()
    change_type(model, TensorProto.INT64)
    content = model.SerializeToString()
    assert put(client, content).status_code == 201
    response = client.post("/v1/jobs", json=spec(hashlib.sha256(content).hexdigest()))
    (problem,) = response.json()["errors"]
    assert response.status_code == 422
    assert problem["pointer"] == "/model/file"
    assert "the input is int64" in problem["message"]


def build_for_engine(op):
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[1,3,8,8] x) => (float[1,192] y) {'
        "e = Constant <value = int64[1] {1}> ()  k = ConstantOfShape (e)  a = Mul (x, k)"
        f"b = {op} (a)  y = Flatten (b) }}"
    )


def test_a_job_of_tinygrad_is_refused_at_once_with_the_nodes_that_the_engine_lacks(client, worker):
    worker.hello(packages=["tinygrad"])
    codes = {}
    for op in ("Softplus", "Relu"):
        content = build_for_engine(op).SerializeToString()
        assert put(client, content).status_code == 201
        body = {**spec(hashlib.sha256(content).hexdigest()), "resources": {"engine": "tinygrad"}}
        codes[op] = client.post("/v1/jobs", json=body)
    assert codes["Relu"].status_code == 202
    (problem,) = codes["Softplus"].json()["errors"]
    assert (problem["pointer"], problem["code"]) == ("/resources/engine", "engine_unsupported")
    assert "operator Softplus (b); set engine to torch" in problem["message"]


def test_a_job_cannot_continue_with_tinygrad_if_the_engine_lacks_a_node_of_its_file(client, worker):
    worker.hello(packages=["tinygrad"])
    answers = {}
    for op in ("Softplus", "Relu"):
        content = build_for_engine(op).SerializeToString()
        assert put(client, content).status_code == 201
        job_id = client.post("/v1/jobs", json=spec(hashlib.sha256(content).hexdigest())).json()[
            "id"
        ]
        assert client.post(f"/v1/jobs/{job_id}/pause").status_code == 200
        answers[op] = client.post(f"/v1/jobs/{job_id}/resume", json={"engine": "tinygrad"})
        if op == "Softplus":
            assert client.get(f"/v1/jobs/{job_id}").json()["status"] == "paused"
            assert client.post(f"/v1/jobs/{job_id}/resume", json={}).status_code == 200
    (problem,) = answers["Softplus"].json()["errors"]
    assert answers["Softplus"].status_code == 422
    assert (problem["pointer"], problem["code"]) == ("/resources/engine", "engine_unsupported")
    assert "operator Softplus (b)" in problem["message"]
    assert answers["Relu"].status_code == 200


def test_a_million_nodes_are_refused_over_http_within_the_limits(client):
    model = build()
    node = model.graph.node[0].SerializeToString()
    # Field 1 of a graph is its list of nodes.
    graph = model.graph.SerializeToString() + (b"\x0a" + bytes([len(node)]) + node) * 1_000_000
    model.ClearField("graph")
    # Field 7 of a model is its graph.
    response = put(client, model.SerializeToString() + b"\x3a" + varint(len(graph)) + graph)
    assert response.status_code == 422
    assert "more than 50,000 nodes" in response.json()["detail"]


def varint(number):
    """A number as protobuf writes it."""
    low, high = number & 127, number >> 7
    return bytes([low | 128]) + varint(high) if high else bytes([low])
