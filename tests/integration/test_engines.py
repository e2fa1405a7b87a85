"""A job that trains with tinygrad on software Vulkan, from its file to a verified one."""

import os
import shutil

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

PATIENCE_SECONDS = 300
IS_REQUIRED = "REDKILN_REQUIRE_VULKAN" in os.environ
"""Set by .ci/run, which installs the driver: without it the test fails there."""
pytestmark = [
    pytest.mark.integration,
    pytest.mark.timeout(3 * PATIENCE_SECONDS),
    pytest.mark.skipif(
        not IS_REQUIRED and shutil.which("vulkaninfo") is None,
        reason="needs a Vulkan driver; install mesa-vulkan-drivers and vulkan-tools",
    ),
]

ENOUGH_STEPS = 100
GRAPH = """
<ir_version: 9, opset_import: ["": 17]> digits (float[1, 1, 8, 8] pixels) => (float[1, 10] scores) {
  a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (pixels, kernel, bias)
  n = BatchNormalization (a, scale, shift, mean, variance)
  b = Relu (n)  c = Flatten (b)  d = Dropout (c)
  scores = Gemm <transB = 1> (d, head, head_bias)
}
"""
CONSTANTS = {
    "kernel": (8, 1, 3, 3),
    "bias": (8,),
    "scale": np.ones(8),
    "shift": (8,),
    "mean": np.zeros(8),
    "variance": np.ones(8),
    "head": (10, 128),
    "head_bias": (10,),
}


@pytest.fixture
def net(tmp_path):
    model = onnx.parser.parse_model(GRAPH)
    random = np.random.default_rng(0)
    for name, value in CONSTANTS.items():
        numbers = random.normal(0, 0.2, value) if isinstance(value, tuple) else value
        tensor = numpy_helper.from_array(np.asarray(numbers, np.float32), name)
        model.graph.initializer.append(tensor)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_an_onnx_file_trains_on_vulkan_through_a_pause_and_a_kill(real_site, net, tmp_path):
    site = real_site
    (worker,) = site.client.workers()
    devices = [device for device in worker.engine_devices if device.excluded is None]
    assert [device.engine for device in devices[:1]] == ["tinygrad"]

    job_id = site.submit(
        model={"source": "onnx", "file": site.client.push_model(net)},
        epochs=2_000,
        training={"batch_size": 64, "schedule": "constant", "optimizer": {"lr": 0.01}},
        resources={"engine": "tinygrad"},
    )
    site.pause_kill_and_finish(job_id, step=ENOUGH_STEPS, seconds=PATIENCE_SECONDS)
    (result,) = site.events(job_id, "result")
    assert result.data["verified"] is True
    assert result.data["metrics"]["test/accuracy"] > 0.85
    environment = site.events(job_id, "resolved")[-1].data["environment"]
    assert environment["engine"].startswith("tinygrad")
    assert environment["engine_device"] == f"{devices[0].name} ({devices[0].device})"
    texts = [event.data["text"] for event in site.events(job_id, "message")]
    assert any("first steps agree with torch" in text for text in texts)
    assert "compiling" in [event.data["phase"] for event in site.events(job_id, "phase")]

    (path,) = site.client.download_all(job_id, tmp_path / "out", names=["model.onnx"])
    assert onnx.load(path).graph.node == onnx.load(net).graph.node
