import io
import pickle
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.worker.script.onnx_files import write_model
from worker.script.results.model_check import ModelCheck, read_checks
from worker.script.results.onnx_check import check_file

ONES = np.ones((2, 3), dtype=np.float32)


@pytest.fixture
def model(tmp_path):
    """Doubles what it is given."""
    path = tmp_path / "m.onnx"
    write_model(path)
    return path


@pytest.fixture
def samples(tmp_path):
    """The path of the samples next to it."""
    return tmp_path / "samples.npz"


def save(path, nodes, inputs, outputs, **domains):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    opsets = [helper.make_opsetid(name.replace("_", "."), v) for name, v in domains.items()]
    opsets.append(helper.make_opsetid("", 20))
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def value(name, kind=TensorProto.FLOAT, shape=("batch", 3)):
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name):
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)


def maps(name):
    of_numbers = helper.make_map_type_proto(
        TensorProto.STRING, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )
    return helper.make_value_info(name, helper.make_sequence_type_proto(of_numbers))


def test_without_samples_parity_is_not_checked(model):
    verdict = check_file(model)
    assert (verdict.verified, verdict.words) == (None, "it runs; parity not checked")
    assert verdict.inputs == {"x": ["batch", 3]}


def test_samples_next_to_the_file_are_compared(model, samples):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(samples, x=x, y=2 * x)
    verdict = check_file(model)
    assert (verdict.verified, verdict.difference) == (True, 0.0)


def test_unexpected_numbers_are_reported(model, tmp_path):
    write_model(model, factor=3.0)
    np.savez(tmp_path / "m.npz", x=ONES, y=2 * ONES)
    verdict = check_file(model)
    assert verdict.verified is False
    assert verdict.difference == pytest.approx(0.5)
    assert verdict.words == (
        "its outputs differ from its samples by 5.0e-01 of the largest value: too much"
    )


def test_samples_with_another_byte_order_are_the_same_numbers(model, samples):
    x = np.arange(6, dtype=">f4").reshape(2, 3)
    np.savez(samples, x=x, y=2 * x)
    assert check_file(model).verified is True


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": ONES, "y": ONES[:1]}, "output y has shape (2, 3), expected (1, 3)"),
        ({"x": ONES, "y": np.full((2, 3), "2")}, "output y has type float32, expected <U1"),
        (
            {"x": ONES, "y": np.full((2, 3), np.nan)},
            "output y cannot be checked: its expected values are not finite",
        ),
        ({"x": np.inf * ONES, "y": ONES}, "output y contains values that are not finite"),
        ({"y": ONES}, "no array for the input 'x'"),
        ({"x": ONES.astype(np.float64), "y": ONES}, "does not run on its samples: "),
        ({"x": ONES[:, :2], "y": ONES}, "index: 1 Got: 2 Expected: 3"),
        ({"x": np.full((2, 3), "a"), "y": ONES}, "Actual: (tensor(string))"),
    ],
)
def test_samples_that_do_not_match_are_reported(model, samples, arrays, words):
    np.savez(samples, **arrays)
    verdict = check_file(model)
    assert verdict.verified is False
    assert words in verdict.words


def test_the_lowest_integer_has_a_large_magnitude(tmp_path, samples):
    path = tmp_path / "m.onnx"
    shape = {"kind": TensorProto.INT8, "shape": [1]}
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [value("x", **shape)],
         [value("y", **shape)])  # fmt: skip
    np.savez(samples, x=np.array([0], dtype=np.int8), y=np.array([-128], dtype=np.int8))
    assert (check_file(path).verified, check_file(path).difference) == (False, 1.0)


def test_samples_without_outputs_check_no_parity(model, samples):
    np.savez(samples, x=ONES, output=ONES)
    verdict = check_file(model)
    assert verdict.verified is None
    assert "parity not checked: its samples contain none of its outputs ['y']" in verdict.words


class Opened:
    """Would tell if it were unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a sample was unpickled",)


def cut_off(data):
    return data[: len(data) // 2]


def spoil_a_member(data):
    at = data.index(b"\x93NUMPY") + 140
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


def pack(name, content):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as members:
        members.writestr(name, content)
    return packed.getvalue()


def npz(**arrays):
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def npy(array):
    plain = io.BytesIO()
    np.save(plain, array)
    return plain.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is incomplete"),
        (b"no zip at all", "it is not an .npz file"),
        (npy(ONES), "it is not an .npz file"),
        (cut_off(npz(x=ONES, y=ONES)), "it is incomplete"),
        (spoil_a_member(npz(x=ONES, y=ONES)), "Bad CRC-32 for file 'x.npy'"),
        (pack("x.npy", cut_off(npy(ONES))), "EOF"),
        (pack("x.npy", b"1 2 3"), "its entry x is not an array"),
        (pack("x", pickle.dumps(Opened())), "its entry x is not an array"),
        (npz(x=np.array([Opened(), None], dtype=object)), "allow_pickle=False"),
        (npz(x=np.array([b"\xff"])), "'utf-8' codec can't decode"),
        (pack("x.npy", npy(ONES).replace(b"(2, 3)", b"(2, 3,")), "EOF"),
        (pack("x.npy", npy(ONES).replace(b"(2, 3), }" + b" " * 13, b"(9" + b"0" * 17 + b",)}")),
         "Unable to allocate"),
    ],
    # A zip has the time at which it was made: processes of xdist would collect different names.
    ids=lambda value: "file" if isinstance(value, bytes) else value,
)  # fmt: skip
def test_damaged_samples_are_reported_by_name_and_never_unpickled(model, samples, content, words):
    samples.write_bytes(content)
    verdict = check_file(model)
    assert verdict.verified is False
    assert verdict.words.startswith("not compared: samples.npz cannot be read: ")
    assert words in verdict.words


def test_texts_are_compared_as_texts(tmp_path, samples):
    path = tmp_path / "m.onnx"
    texts = {"kind": TensorProto.STRING, "shape": ["n"]}
    save(path, [helper.make_node("Identity", ["x"], ["y"])], [value("x", **texts)],
         [value("y", **texts)])  # fmt: skip
    verdict = check_file(path)
    assert verdict.verified is None
    assert "cannot generate an input of type tensor(string); provide samples.npz" in verdict.words
    names = np.array(["köln", "bonn"])
    np.savez(samples, x=names, y=names)
    assert (check_file(path).verified, check_file(path).difference) == (True, 0.0)
    np.savez(samples, x=np.char.encode(names, "utf-8"), y=np.array(["köln", "berlin"]))
    verdict = check_file(path)
    assert verdict.verified is False
    assert "1 of 2 texts that differ from the expected: 'bonn' instead of 'berlin'" in verdict.words
    np.savez(samples, x=names, y=np.zeros(2))
    assert "has type object, expected float64" in check_file(path).words


def test_text_outputs_are_compared_in_addition_to_numbers(tmp_path, samples):
    path = tmp_path / "m.onnx"
    save(
        path,
        [helper.make_node("Cast", ["x"], ["t"], to=TensorProto.STRING),
         helper.make_node("Identity", ["x"], ["y"])],
        [value("x")], [value("t", TensorProto.STRING), value("y")],
    )  # fmt: skip
    np.savez(samples, x=ONES, t=np.full((2, 3), "1"), y=ONES)
    assert check_file(path).verified is True
    np.savez(samples, x=ONES, t=np.full((2, 3), "2"), y=ONES)
    assert check_file(path).verified is False


@pytest.mark.parametrize("given", [{}, {"x": ONES, "y": ONES}])
def test_a_sequence_input_cannot_come_from_samples(tmp_path, samples, given):
    path = tmp_path / "m.onnx"
    length = value("y", TensorProto.INT64, [])
    save(path, [helper.make_node("SequenceLength", ["x"], ["y"])], [sequence("x")], [length])
    if given:
        np.savez(samples, **given)
    verdict = check_file(path)
    assert verdict.verified is None
    assert "its input x has type seq(tensor(float)), which a sample cannot have" in verdict.words


@pytest.mark.parametrize("kind", ["sequence", "maps"])
def test_an_output_that_is_not_a_tensor_is_reported_as_not_compared(tmp_path, samples, kind):
    path = tmp_path / "m.onnx"
    if kind == "sequence":
        odd, out, domains = helper.make_node("SequenceConstruct", ["x"], ["p"]), sequence("p"), {}
    else:
        labels = {"classlabels_strings": ["a", "b", "c"]}
        odd = helper.make_node("ZipMap", ["x"], ["p"], domain="ai.onnx.ml", **labels)
        out, domains = maps("p"), {"ai_onnx_ml": 3}
    nodes = [odd, helper.make_node("Identity", ["x"], ["y"])]
    save(path, nodes, [value("x")], [value("y"), out], **domains)
    assert check_file(path).words == "it runs; parity not checked"
    np.savez(samples, x=ONES, y=ONES)
    assert check_file(path).verified is True, "what was not sampled need not be compared"
    np.savez(samples, x=ONES, y=ONES, p=ONES)
    verdict = check_file(path)
    assert verdict.verified is None
    assert "not compared: p is not a tensor" in verdict.words
    np.savez(samples, x=ONES, y=2 * ONES, p=ONES)
    assert check_file(path).verified is False
    np.savez(samples, x=ONES, p=ONES)
    assert check_file(path).words == "it runs; parity not checked: p is not a tensor"


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.INT4])
def test_no_input_is_generated_for_types_that_numpy_lacks(tmp_path, kind):
    path = tmp_path / "m.onnx"
    save(path, [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)],
         [value("x", kind)], [value("y")], ai_onnx_ml=3)  # fmt: skip
    model = onnx.load(path)
    model.opset_import[-1].version = 21
    onnx.save(model, path)
    verdict = check_file(path)
    assert verdict.verified is None
    assert "cannot generate an input" in verdict.words


def test_an_invalid_file_does_not_load(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"no model")
    verdict = check_file(tmp_path / "m.onnx")
    assert verdict.verified is False
    assert "cannot be loaded" in verdict.words


def test_a_checker_that_crashes_blames_the_current_file():
    output = ModelCheck(verified=None, words="runs").model_dump_json() + "\n"
    verdicts = read_checks(output, ["a.onnx", "b.onnx", "c.onnx"])
    assert list(verdicts) == ["a.onnx", "b.onnx"]
    assert verdicts["b.onnx"].verified is False


def test_unreadable_output_of_a_checker_blames_the_file():
    verdicts = read_checks('{"verified": tru\n', ["a.onnx", "b.onnx"])
    assert list(verdicts) == ["a.onnx"]
    assert verdicts["a.onnx"].verified is False
