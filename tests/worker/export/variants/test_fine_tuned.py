import numpy as np
import pytest
import torch
from torch import nn

from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.export.variants.fine_tuned import quantise
from worker.qat.network import load_state, prepare
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
