"""The networks are those of the papers: their parameters and operations are known numbers."""

import pytest
import torch

from worker.hardware.benchmark.suite import networks
from worker.hardware.benchmark.suite.count import count_bytes, count_flop

PARAMETERS = {
    networks.build_mobilenet_v2: 3_504_872,
    networks.build_resnet50: 25_557_032,
    networks.build_vgg16: 138_357_544,
    networks.build_inception_v3: 23_834_568,
}
"""Source: torchvision 0.20, without the auxiliary classifier of Inception-V3."""


@pytest.mark.parametrize("build", PARAMETERS)
def test_an_image_network_has_the_papers_parameters(build):
    with torch.device("meta"):
        model = build()
    assert sum(each.numel() for each in model.parameters()) == PARAMETERS[build]


def test_the_unet_keeps_the_size_of_its_images():
    with torch.device("meta"):
        out = networks.UNet()(torch.empty(1, 3, 64, 64))
    assert out.shape == (1, 2, 64, 64)


def test_operations_of_a_convolution_and_of_an_lstm_are_counted():
    layer = torch.nn.Conv2d(4, 8, 3, padding=1, bias=False)
    assert count_flop(layer, torch.rand(1, 4, 10, 10)) == 2 * 100 * 8 * 4 * 9
    lstm = networks.SentimentLstm()
    steps = 7 * 2 * 4 * lstm.HIDDEN * (lstm.FEATURES + lstm.HIDDEN)
    assert count_flop(lstm, torch.rand(1, 7, lstm.FEATURES)) == steps + 2 * lstm.HIDDEN * 2


def test_bytes_are_inputs_outputs_and_weights_of_each_layer():
    layer = torch.nn.Sequential(torch.nn.Linear(10, 5, bias=False))
    assert count_bytes(layer, torch.rand(2, 10)) == 4 * (20 + 10 + 50)
    assert count_bytes(layer, torch.rand(1, 10), repeats=2) == 4 * (20 + 10 + 50)
