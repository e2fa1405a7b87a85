import functools

import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.onnx._internal.exporter import _fx_passes

from worker.export.exportable import Exportable
from worker.export.onnx_file import write_onnx
from worker.export.tracing import decomposition


class Norms(nn.Module):
    """A network with batch normalisation inside, and perhaps as its last layer."""

    def __init__(self, *, is_last=False, has_scale=True):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4, affine=has_scale)
        self.last = nn.BatchNorm1d(4) if is_last else nn.Linear(4, 2)
        for norm in (one for one in self.modules() if isinstance(one, nn.BatchNorm2d)):
            nn.init.normal_(norm.running_mean)

    def forward(self, images):
        return self.last(torch.relu(self.norm(self.convolution(images))).mean((2, 3)))


class Conversions(nn.Module):
    """A network that converts types, sometimes to the same one, and joins flags."""

    def forward(self, images):
        means = images.to("cpu").float().mean((2, 3))
        is_bright, is_red = means.amax(1) > 0.5, means.argmax(1).to(torch.uint8) == 0
        either = ((is_bright & is_red) | (means[:, 1] < 0)).to(torch.float32)
        return means * either[:, None]


def exportable(module):
    return Exportable(
        module.eval().requires_grad_(False),
        examples={"images": torch.zeros(2, 3, 8, 8)},
        others={"images": torch.zeros(5, 3, 8, 8)},
        output="logits",
        architecture={},
    )


@pytest.fixture
def traced(monkeypatch):
    """Count how often torch itself replaces operators, and let the test choose its own way."""
    counted = []

    def decompose(program, registry):
        counted.append(program)
        return program.run_decompositions(
            _fx_passes._decomp.create_onnx_friendly_decomposition_table(
                set(_fx_passes._decomp.get_onnx_implemented_overloads(registry))
            )
        )

    monkeypatch.setattr(_fx_passes, "decompose_with_registry", decompose)
    skip = functools.cache(decomposition.skip_second_trace.__wrapped__)
    monkeypatch.setattr("worker.export.onnx_file.skip_second_trace", skip)
    return counted


def operators(path):
    model = onnx.load(path)
    weights = {one.name: one.raw_data for one in model.graph.initializer if "." in one.name}
    return [node.op_type for node in model.graph.node], weights


@pytest.mark.parametrize("network", [Norms, Conversions])
def test_a_network_that_is_traced_once_has_torchs_graph(tmp_path, traced, monkeypatch, network):
    torch.manual_seed(0)
    model = exportable(network())
    write_onnx(model, tmp_path / "once.onnx", opset=18, metadata={})
    assert not traced
    monkeypatch.setattr(decomposition, "_is_known", lambda program, registry: False)
    write_onnx(model, tmp_path / "twice.onnx", opset=18, metadata={})
    assert len(traced) == 1
    assert operators(tmp_path / "once.onnx") == operators(tmp_path / "twice.onnx")


@pytest.mark.parametrize("how", [{"is_last": True}, {"has_scale": False}])
def test_norms_that_cannot_be_replaced_are_left_to_torch(tmp_path, traced, how):
    write_onnx(exportable(Norms(**how)), tmp_path / "model.onnx", opset=18, metadata={})
    assert len(traced) == 1


class Filled(nn.Module):
    """A network that fills new memory, wholly or in part, and draws a grid."""

    def __init__(self, *, make=torch.empty, num_filled=3):
        super().__init__()
        self.make, self.num_filled = make, num_filled

    def forward(self, images):
        means = images.mean((2, 3))
        kept = self.make((images.shape[0], 3), dtype=torch.float32)
        kept[:, : self.num_filled] = means[:, : self.num_filled]
        sides = torch.linspace(0, 1, 3), torch.linspace(2, 4, 5)
        rows, columns = torch.meshgrid(*sides, indexing="ij")
        return kept * rows[:, 1] + columns[0, 2:]


def answer(path, images):
    (found,) = onnxruntime.InferenceSession(path).run(None, {"images": images.numpy()})
    return found


def test_memory_that_is_filled_and_grids_need_no_second_trace(tmp_path, traced):
    network, images = Filled(), torch.rand(5, 3, 8, 8)
    write_onnx(exportable(network), tmp_path / "model.onnx", opset=18, metadata={})
    assert not traced
    found = answer(tmp_path / "model.onnx", images)
    assert found == pytest.approx(network(images).numpy(), rel=1e-5)


@pytest.mark.parametrize("how", [{"make": torch.zeros}, {"make": torch.zeros, "num_filled": 2}])
def test_memory_that_had_contents_is_left_to_torch(tmp_path, traced, how):
    network, images = Filled(**how), torch.rand(5, 3, 8, 8)
    write_onnx(exportable(network), tmp_path / "model.onnx", opset=18, metadata={})
    assert len(traced) == 1
    found = answer(tmp_path / "model.onnx", images)
    assert found == pytest.approx(network(images).numpy(), rel=1e-5)


class LastIsTheSame(nn.Module):
    def forward(self, images):
        return images.mean((2, 3)).float()


def test_an_output_that_a_conversion_does_not_change_is_left_to_torch(tmp_path, traced):
    write_onnx(exportable(LastIsTheSame()), tmp_path / "model.onnx", opset=18, metadata={})
    assert len(traced) == 1


class InPlace(nn.Module):
    def forward(self, images):
        found = images.mean((2, 3))
        return found.add_(1)


def test_a_network_that_writes_in_place_is_left_to_torch(tmp_path, traced):
    write_onnx(exportable(InPlace()), tmp_path / "model.onnx", opset=18, metadata={})
    assert len(traced) == 1
