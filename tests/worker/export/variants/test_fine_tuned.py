from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn

from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.export.variants.fine_tuned import quantise
from worker.qat.network import OBSERVER, load_state, prepare
from worker.tasks.image_classification.exported import INPUT, make_exportable

# torchao traces 30 patterns of batch norm, which takes 4 s. One process imports it for all tests.
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("fine-tuned")]


def test_the_int8_form_computes_in_onnxruntime_what_it_computes_in_torch(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 5)
    ).eval()
    exportable = make_exportable(
        network, mean=[0.5] * 3, std=[0.25] * 3, image_size=8, architecture={}
    )
    tuned = prepare(exportable.module.network, torch.zeros(2, 3, 8, 8))
    for seed in range(3):  # fills the ranges
        torch.manual_seed(seed)
        tuned((torch.rand(16, 3, 8, 8) - 0.5) / 0.25)
    quantised = quantise(exportable, tuned.state_dict())
    path = tmp_path / "model.onnx"
    write_onnx(quantised, path, opset=20, metadata={})
    images = {INPUT: np.random.default_rng(0).random((64, 3, 8, 8)).astype(np.float32)}
    expected = quantised.predict(images)
    found = onnx_predict(open_session(path, threads=1))(images)
    # An activation between two steps may be rounded up by one and down by the other, because they
    # add up in different orders. Everything else is equal.
    distance = np.abs(found - expected).max(axis=1) / np.abs(expected).max()
    assert (distance < 1e-5).mean() > 0.8
    assert distance.max() < 2 / 127
    assert np.abs(expected - exportable.predict(images)).max() > 1e-3


def test_ranges_that_are_found_again_fit_batch_norm_in_evaluation_mode():
    from torchao.quantization import pt2e

    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
        nn.Linear(512, 5),
    )  # fmt: skip
    with torch.no_grad():
        network[0].weight.mul_(20)  # its outputs exceed those that batch norm knows at first
    exportable = make_exportable(
        network.eval(), mean=[0.5] * 3, std=[0.25] * 3, image_size=8, architecture={}
    )
    tuned = prepare(exportable.module.network, torch.zeros(2, 3, 8, 8))
    generator = np.random.default_rng(0)
    batches = [{INPUT: generator.random((16, 3, 8, 8)).astype(np.float32)} for _ in range(4)]
    for batch in batches[:3]:
        tuned((torch.from_numpy(batch[INPUT]) - 0.5) / 0.25)
    unrounded = prepare(exportable.module.network, torch.zeros(2, 3, 8, 8))
    load_state(unrounded, tuned.state_dict())
    unrounded.apply(pt2e.disable_fake_quant).apply(pt2e.disable_observer)
    unrounded.eval()
    expected = unrounded((torch.from_numpy(batches[3][INPUT]) - 0.5) / 0.25).detach().numpy()
    before = quantise(exportable, tuned.state_dict()).predict(batches[3])
    after = quantise(exportable, tuned.state_dict(), batches=batches[:3]).predict(batches[3])
    assert np.abs(after - expected).mean() < 0.3 * np.abs(before - expected).mean()


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.normed = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.plain = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Sequential(nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(288, 5))

    def forward(self, images):
        features = torch.relu(self.first(images))
        features = torch.relu(self.normed(features) + features)
        return self.last(self.plain(features) + features)


@pytest.fixture(scope="module")
def residual():
    """A network with two residual blocks, one with batch norm, and its fine-tuned form."""
    torch.manual_seed(0)
    exportable = make_exportable(
        Residual().eval(), mean=[0.5] * 3, std=[0.25] * 3, image_size=8, architecture={}
    )
    tuned = prepare(exportable.module.network, torch.zeros(2, 3, 8, 8))
    tuned((torch.rand(16, 3, 8, 8) - 0.5) / 0.25)
    return exportable, tuned.state_dict()


def test_onnxruntime_computes_all_layers_of_residual_blocks_in_int8(residual, tmp_path):
    exportable, state = residual
    write_onnx(quantise(exportable, state), tmp_path / "model.onnx", opset=20, metadata={})
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    onnxruntime.InferenceSession(
        tmp_path / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    nodes = onnx.load(tmp_path / "optimised.onnx").graph.node
    counts = Counter(node.op_type for node in nodes)
    assert counts["QLinearConv"] == 4
    assert counts["QLinearAdd"] == 2
    assert not {"Conv", "Add"} & counts.keys()


def test_the_state_of_a_release_that_rounded_other_values_keeps_what_was_learnt(residual):
    exportable, state = residual
    older = {
        name.replace(OBSERVER, f"{OBSERVER}9") if OBSERVER in name else name: tensor
        for name, tensor in state.items()
    }
    prepared = prepare(exportable.module.network, torch.zeros(2, 3, 8, 8))
    with torch.no_grad():
        for parameter in prepared.parameters():
            parameter.zero_()
    load_state(prepared, older)
    found = prepared.state_dict()
    learnt = [name for name in state if OBSERVER not in name]
    assert len(learnt) > 10
    assert all(torch.equal(found[name], state[name]) for name in learnt)
    with pytest.raises(RuntimeError, match=f"another network.*{learnt[0]}"):
        load_state(prepared, {name: each for name, each in older.items() if name != learnt[0]})
