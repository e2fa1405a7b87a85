"""What is changed in the library's detectors, so that their files are right."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tests.worker.trainer.queries.conftest import build
from worker.export.exportable import Exportable
from worker.export.onnx_file import open_session, write_onnx
from worker.trainer.queries.tracing import PairMaxima


class Padded(nn.Module):
    """Pools behind a padding of zeros, as HGNetV2 does."""

    def __init__(self):
        super().__init__()
        self.pool = PairMaxima()

    def forward(self, images):
        return self.pool(functional.pad(images, (0, 1, 0, 1)))


def test_a_pooling_of_negative_values_behind_zeros_is_the_same_in_the_file(tmp_path):
    images = -1 - torch.rand(2, 3, 6, 5, generator=torch.Generator().manual_seed(0))
    wanted = nn.MaxPool2d(2, stride=1)(functional.pad(images, (0, 1, 0, 1)))
    assert torch.equal(Padded()(images), wanted)
    given = {"images": images}
    exportable = Exportable(Padded().eval(), given, given, "pooled", {})
    write_onnx(exportable, tmp_path / "pool.onnx", opset=20, metadata={})
    (found,) = open_session(tmp_path / "pool.onnx", threads=1).run(None, {"images": images.numpy()})
    np.testing.assert_array_equal(found, wanted.numpy())


def test_the_first_layers_of_hgnet_pool_in_this_way():
    pools = [module for module in build("d_fine").modules() if isinstance(module, PairMaxima)]
    assert len(pools) == 1
