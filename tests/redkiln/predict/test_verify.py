"""Faults that exports have had, planted in a small network, and the numbers that show them."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from redkiln.errors import ModelError
from redkiln.predict import verify as verify_module
from redkiln.predict.verify import load_saved, verify
from tests.redkiln.predict.models import COLOURS, SIDE, save, value_info

NUM = 150
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(3 * SIDE * SIDE, 3)).astype(np.float32)
BIAS = np.array([2.0, -1.5, 0.5], np.float32)
MEAN, STD = np.float32(0.4), np.float32(0.25)
PIXELS = RNG.integers(0, 256, (NUM, SIDE, SIDE, 3), dtype=np.uint8)


def answer(pixels, *, mean=MEAN, std=STD, weights=WEIGHTS, bias=BIAS):
    planes = pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255
    return ((planes - mean) / std).reshape(len(pixels), -1) @ weights + bias


def plant(
    folder,
    *,
    weights=WEIGHTS,
    bias=BIAS,
    mean=MEAN,
    std=STD,
    centre=False,
    facts=None,
    **options,
):
    """Write the network with a fault, and the outputs that it should have."""
    nodes = [
        helper.make_node("Sub", ["images", "mean"], ["shifted"]),
        helper.make_node("Div", ["shifted", "std"], ["scaled"]),
        helper.make_node("Flatten", ["scaled"], ["flat"]),
    ]
    flat = "flat"
    if centre:  # as batch normalisation does in training mode
        nodes.append(helper.make_node("ReduceMean", [flat, "zero"], ["average"]))
        nodes.append(helper.make_node("Sub", [flat, "average"], ["centred"]))
        flat = "centred"
    nodes.append(helper.make_node("Gemm", [flat, "weights", "bias"], ["logits"]))
    path = save(
        folder,
        nodes,
        [value_info("images", TensorProto.FLOAT, 3, SIDE, SIDE)],
        value_info("logits", TensorProto.FLOAT, 3),
        weights={
            "mean": np.array(mean, np.float32),
            "std": np.array(std, np.float32),
            "zero": np.array([0]),
            "weights": weights,
            "bias": bias,
        },
        task="image-classification",
        classes=COLOURS,
        preprocessing=facts or {"output": "logits", "resize": "stretch"},
        **options,
    )
    outputs = answer(PIXELS)
    labels = outputs.argmax(axis=1)
    labels[::10] = (labels[::10] + 1) % 3
    is_test = np.arange(NUM) < 100
    np.savez(folder / "parity.npz", images=PIXELS, logits=outputs, labels=labels, is_test=is_test)
    return path


def test_a_right_file_is_verified_with_its_numbers(tmp_path):
    verdict = verify(plant(tmp_path), threads=1)
    assert verdict.verified
    assert not verdict.suspicions
    assert (verdict.num_samples, verdict.num_test) == (NUM, 100)
    assert verdict.torch_metric == pytest.approx(0.9)
    assert verdict.interval == pytest.approx((0.8256, 0.9448), abs=1e-3)
    assert set(verdict.ways) == {"optimised for this CPU", "as written"}
    for way in verdict.ways.values():
        assert way.difference.relative < 1e-5
        assert way.difference.agreement == 1
        assert way.drop == 0


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (
            {"weights": WEIGHTS[:, [1, 2, 0]], "bias": BIAS[[1, 2, 0]]},
            "the classes are in the order 1, 2, 0",
        ),
        ({"bias": np.zeros(3, np.float32)}, "shifted by a constant (-2, +1.5, -0.5)"),
        ({"centre": True}, "batch normalisation was exported in training mode"),
        ({"mean": 0.5, "std": 1.0}, "torch's multiplied by 0.25"),
        (
            {"weights": (WEIGHTS + 0.4 * RNG.normal(size=WEIGHTS.shape)).astype(np.float32)},
            "the weights are those of another epoch",
        ),
        ({"weights": RNG.normal(size=WEIGHTS.shape).astype(np.float32)}, None),
        ({"std": 0.0}, "not finite"),
    ],
    ids=[
        "class order",
        "dropped bias",
        "training mode",
        "mean and std",
        "epoch",
        "other network",
        "not finite",
    ],
)
def test_planted_faults_are_found_and_explained_where_their_numbers_allow(tmp_path, fault, cause):
    verdict = verify(plant(tmp_path, **fault), threads=1)
    assert not verdict.verified
    assert "outputs differ by up to" in verdict.misses[0]
    assert all(way.difference.relative > 0.01 for way in verdict.ways.values())
    if cause:
        assert any(cause in text for text in verdict.suspicions)
    else:
        assert verdict.suspicions == []


def test_int8_sums_that_saturate_on_this_cpu_are_distinguished_from_a_wrong_file(
    tmp_path, monkeypatch
):
    path = plant(tmp_path)
    opened = verify_module.open_session

    class Saturating:
        def __init__(self, session):
            self._session = session

        def get_modelmeta(self):
            return self._session.get_modelmeta()

        def get_inputs(self):
            return self._session.get_inputs()

        def run(self, names, feed):
            (outputs,) = self._session.run(names, feed)
            return [outputs.clip(-3, 3)]

    def open_session(path, *, threads, is_optimized=True):
        session = opened(path, threads=threads, is_optimized=is_optimized)
        return Saturating(session) if is_optimized else session

    monkeypatch.setattr(verify_module, "open_session", open_session)
    verdict = verify(path)
    assert not verdict.verified
    assert not verdict.ways["as written"].misses
    assert "sums of int8 products may saturate" in verdict.suspicions[-1]


def test_another_execution_provider_is_run_and_judged_too(tmp_path):
    verdict = verify(plant(tmp_path), threads=1, provider="cpu")
    assert list(verdict.ways)[2] == "CPUExecutionProvider"
    assert verdict.verified
    wrong = verify(plant(tmp_path / "wrong", bias=np.zeros(3, np.float32)), provider="CPU")
    assert any(miss.startswith("CPUExecutionProvider: outputs differ") for miss in wrong.misses)


def test_a_provider_that_is_not_there_is_refused_with_those_that_are(tmp_path):
    with pytest.raises(ModelError, match=r"has no provider 'migraphx'\. It has: .*CPU"):
        verify(plant(tmp_path), provider="migraphx")


@pytest.mark.filterwarnings("ignore:Specified provider")
def test_a_provider_that_falls_back_to_the_cpu_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(verify_module, "find_provider", lambda _named: "CUDAExecutionProvider")
    with pytest.raises(ModelError, match="CUDAExecutionProvider"):
        verify(plant(tmp_path), provider="cuda")


def test_truncated_external_data_are_refused(tmp_path):
    path = plant(tmp_path)
    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    data = tmp_path / "weights.bin"
    data.write_bytes(data.read_bytes()[:-16])
    with pytest.raises(ModelError, match="ONNX Runtime cannot load"):
        verify(path)


def test_the_limits_are_those_of_the_job(tmp_path):
    gate = {"gate": {"tolerance": 1.0, "max_metric_drop": 1.0}, "verified": True}
    path = plant(tmp_path, bias=np.zeros(3, np.float32), manifest={"verification": gate})
    assert verify(path).verified
    assert verify(path).limits.tolerance == 1


def test_saved_samples_of_another_model_are_refused(tmp_path):
    path = plant(tmp_path)
    description = verify(path).description
    np.savez(tmp_path / "parity.npz", values=np.zeros(3))
    with pytest.raises(ModelError, match="does not belong to"):
        load_saved(tmp_path / "parity.npz", description)
    (tmp_path / "parity.npz").write_bytes(b"PK")
    with pytest.raises(ModelError, match="cannot be read"):
        verify(path)
    (tmp_path / "parity.npz").unlink()
    with pytest.raises(ModelError, match=r"parity\.npz is missing"):
        verify(path)


def test_a_changed_parity_file_is_refused(tmp_path):
    path = plant(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    manifest["files"]["parity.npz"] = {"sha256": "0" * 64, "size_bytes": 1}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelError, match=r"parity\.npz .* is not the file of 1 bytes"):
        verify(path)
