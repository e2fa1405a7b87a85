"""Which kinds of convolutions torchao searches for."""

import pytest
import torch
from torch import nn

from worker.qat.patterns import HELPERS, OPERATORS, only_present_layers

LAYERS = {
    nn.functional.conv1d: (nn.Conv1d(1, 2, 3), (2, 1, 8)),
    nn.functional.conv2d: (nn.Conv2d(1, 2, 3), (2, 1, 8, 8)),
    nn.functional.conv_transpose1d: (nn.ConvTranspose1d(1, 2, 3), (2, 1, 8)),
    nn.functional.conv_transpose2d: (nn.ConvTranspose2d(1, 2, 3), (2, 1, 8, 8)),
}


@pytest.fixture(scope="module")
def qat_utils():
    """Imported here, because each process of tests would spend a second on it when it collects."""
    from torchao.quantization.pt2e import qat_utils

    return qat_utils


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_a_kind_is_searched_for_if_the_network_has_it(kind, monkeypatch, qat_utils):
    layer, shape = LAYERS[kind]
    graph = torch.export.export(layer, (torch.zeros(shape),)).module()
    searched = []
    for name in HELPERS:
        monkeypatch.setattr(qat_utils, name, lambda graph, kind: searched.append(kind) or graph)
    with only_present_layers():
        for name in HELPERS:
            for each in OPERATORS:
                assert getattr(qat_utils, name)(graph, each) is graph
    assert searched == [kind, kind]


def test_torchao_searches_for_all_kinds_again_afterwards(qat_utils):
    before = [getattr(qat_utils, name) for name in HELPERS]
    with only_present_layers():
        assert [getattr(qat_utils, name) for name in HELPERS] != before
    assert [getattr(qat_utils, name) for name in HELPERS] == before
