import numpy as np
import pytest
import torch
from torch import nn

from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict
from worker.export.variants.fine_tuned import quantise
from worker.qat.network import prepare
from worker.tasks.image_classification.exported import INPUT, make_exportable


@pytest.mark.integration  # torchao traces 120 patterns of batch norm, which takes 15 s
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
