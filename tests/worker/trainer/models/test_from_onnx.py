"""ONNX files as models of a job: which weights are trained, and what is refused."""

import json
import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper, parser

from redkiln.failure import FailureCode
from tests.worker.job_dirs import load_arrays
from tests.worker.trainer.memory import train_with_little_memory
from worker.checkpoints.checkpoint import CheckpointStore
from worker.jobdir import EXIT_DONE
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

GRAPH = """
<ir_version: 9, opset_import: ["": 17]>
small (float[1, 3, 12, 12] pixels) => (float[1, 3] scores) {
  a = Conv (pixels, first_weight, first_bias)
  b = Relu (a)
  c = Conv (b, second_weight, second_bias)
  d = Relu (c)
  e = GlobalAveragePool (d)
  f = Flatten (e)
  scores = Gemm <transB = 1> (f, head_weight, head_bias)
}
"""
SHAPES = {"first": (4, 3, 3, 3), "second": (6, 4, 3, 3), "head": (3, 6)}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    model = parser.parse_model(GRAPH)
    random = np.random.default_rng(0)
    for name, shape in SHAPES.items():
        values = {"weight": random.normal(0, 0.3, shape), "bias": np.zeros(shape[0])}
        for part, value in values.items():
            tensor = numpy_helper.from_array(value.astype(np.float32), f"{name}_{part}")
            model.graph.initializer.append(tensor)
    path = tmp_path_factory.mktemp("onnx") / "small.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def make_onnx(make_job, path):
    def make(name="job", *, training=None, resume=None, order_path=path, **model):
        return make_job(
            name,
            model={"source": "onnx", "name": "auto", "file": "0" * 64, **model},
            training={"epochs": 2, "batch_size": 10, **(training or {})},
            order={"bundle_path": str(order_path), "resume": resume},
        )

    return make


def trained_names(setup):
    network = setup.model
    return {network.names[key] for key, one in network.named_parameters() if one.requires_grad}


ALL = {f"{name}_{part}" for name in SHAPES for part in ("weight", "bias")}


@pytest.mark.parametrize(
    ("train", "names"),
    [
        ("all", ALL),
        ("head", {"head_weight", "head_bias"}),
        (["second*", "head_bias"], {"second_weight", "second_bias", "head_bias"}),
        (["*_weight"], {"first_weight", "second_weight", "head_weight"}),
    ],
)
def test_a_spec_says_which_weights_are_trained(make_onnx, start, train, names):
    loop, setup = start(make_onnx(train=train, training={"epochs": 1}))
    assert trained_names(setup) == names
    before = {k: v.detach().clone() for k, v in setup.model.weights_by_name().items()}
    loop.run()
    after = setup.model.weights_by_name()
    assert {name for name in ALL if not before[name].equal(after[name])} == names


def test_patterns_that_fit_no_weight_are_refused_with_names_that_exist(make_onnx, start):
    with pytest.raises(TrainingFailed) as caught:
        start(make_onnx(train=["layer4.*"]))
    failure = caught.value.failure
    assert (failure.code, failure.details["pointer"]) == (FailureCode.BAD_INPUT, "/model/train")
    assert "second_weight" in failure.message


def test_an_interrupted_run_resumes_exactly(make_onnx, start, losses):
    whole = make_onnx("whole", weights="reset")
    start(whole)[0].run()
    job_dir = make_onnx(weights="reset")
    with pytest.raises(Stopped):
        start(job_dir, stop_after=4)[0].run()
    newest = CheckpointStore(job_dir.checkpoints_dir).manifests()[-1]
    assert newest.step == 4
    start(make_onnx(weights="reset", resume=newest.name))[0].run()
    assert losses(job_dir) == losses(whole)


ENDS = {
    "scores = Reshape (f, wrong)": "Reshape before it may allow one batch size only",
    "scores = Concat <axis = 1> (f, f)": "for 3 images, not [3, 3]",
    "s = Sub (f, three)  e = Softplus (s)  u = ReduceSum <keepdims = 1> (e, one)  "
    "scores = Div (e, u)": "returns probabilities",
    "scores = Exp (flat)": "no weight that could be trained",
}


@pytest.mark.parametrize("end", ENDS)
def test_what_cannot_be_trained_is_refused_before_training(make_onnx, start, tmp_path, end):
    before = "" if "flat" in end else "z = Conv (pixels, k)  p = GlobalAveragePool (z)  "
    before += "g = GlobalAveragePool (pixels)  flat = Flatten (g)" if "flat" in end else ""
    before += "" if "flat" in end else "f = Flatten (p)"
    head = GRAPH.partition("{")[0].replace("float[1, 3] scores", "scores")
    model = parser.parse_model(f"{head} {{ {before} {end} }}")
    constants = {
        "k": np.ones((3, 3, 3, 3), np.float32),
        "wrong": np.array([3, 1]),
        "three": np.arange(3, dtype=np.float32),
        "one": np.array([1]),
    }
    for name, value in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(value, name))
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(TrainingFailed, match=re.escape(ENDS[end])):
        start(make_onnx(order_path=tmp_path / "net.onnx"))


def test_a_file_gets_an_automatic_batch_size_and_trains_in_bf16(make_onnx, start, losses):
    job_dir = make_onnx(training={"epochs": 1, "batch_size": "auto", "precision": "bf16"})
    loop, setup = start(job_dir)
    loop.run()
    assert isinstance(setup.spec.training.batch_size, int)
    assert setup.spec.training.precision == "bf16"
    assert all(np.isfinite(loss) for loss in losses(job_dir).values())
    assert {p.dtype for p in setup.model.parameters()} == {torch.float32}


def test_a_batch_of_a_file_is_split_when_memory_runs_out(
    make_onnx, start, losses, events, run_out_of_memory
):
    train_with_little_memory(
        make_onnx, start, losses, run_out_of_memory, events=events, training={"batch_size": 8}
    )


def test_a_graph_with_channels_last_and_normalisation_becomes_a_verified_int8_file(
    make_job, tmp_path
):
    head = '<ir_version: 9, opset_import: ["": 17]> g (float[1, 12, 12, 3] x) => (float[1, 3] y)'
    model = parser.parse_model(
        f"{head} {{ t = Transpose <perm = [0, 3, 1, 2]> (x)  a = Conv (t, w)  b = Relu (a)"
        "  c = MaxPool <kernel_shape = [5, 5], strides = [5, 5]> (b)  f = Flatten (c)"
        "  y = MatMul (f, hw) }"
    )
    random = np.random.default_rng(0)
    for name, shape in {"w": (4, 3, 3, 3), "hw": (16, 3)}.items():
        values = random.normal(0, 0.2, shape).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(values, name))
    onnx.save(model, tmp_path / "net.onnx")
    normalization = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4]}
    job_dir = make_job(
        model={"source": "onnx", "name": "auto", "file": "0" * 64, "normalization": normalization},
        training={"epochs": 4, "batch_size": 10, "optimizer": {"name": "adamw", "lr": 0.02}},
        export={"variants": ["int8-static"]},
        order={"bundle_path": str(tmp_path / "net.onnx")},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]
    assert export_job(job_dir) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]
    manifest = json.loads((job_dir.out_dir / "manifest.json").read_text())
    assert manifest["verification"]["verified"]
    assert manifest["metrics"]["test/accuracy"] > 0.9
    (variant,) = [one for one in manifest["variants"] if one["name"] == "int8-static"]
    assert variant["verified"], variant
    # The published file takes pixels from 0 to 1, channels first, as every other.
    parity = load_arrays(job_dir.out_dir / "parity.npz")
    pixels = parity["images"].astype(np.float32).transpose(0, 3, 1, 2) / 255
    for name, most in (("model.onnx", 1e-3), ("model-int8-static.onnx", None)):
        session = onnxruntime.InferenceSession(job_dir.out_dir / name)
        (found,) = session.run(None, {session.get_inputs()[0].name: pixels})
        assert found.shape == (len(pixels), 3)
        if most is not None:
            np.testing.assert_allclose(found, parity["y"], atol=most)
