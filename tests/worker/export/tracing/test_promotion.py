import functools

import onnx
import torch
from torch import fx, nn
from torch.onnx._internal.fx.passes import type_promotion

from worker.export.exportable import Exportable
from worker.export.onnx_file import write_onnx
from worker.export.tracing import promotion


class Mixed(nn.Module):
    """A network whose sums and products have operands of different types."""

    def forward(self, images):
        means = images.mean((2, 3))
        places = means.argmax(1)
        return torch.relu(means * places[:, None] + torch.arange(3)) / (places[:, None] + 1)


def test_operands_of_different_types_are_converted_as_by_torch(tmp_path, monkeypatch):
    classes = type_promotion._TypePromotionInterpreter.__mro__
    torchs = next(each for each in classes if each.__module__ == type_promotion.__name__)
    counted = []

    def call_function(self, target, *rest):
        counted.append(target)
        return fx.Interpreter.call_function(self, target, *rest)

    monkeypatch.setattr(torchs, "call_function", call_function, raising=False)
    monkeypatch.setattr(type_promotion, "_TypePromotionInterpreter", torchs)
    model = Exportable(
        Mixed().eval(),
        examples={"images": torch.zeros(2, 3, 8, 8)},
        others={"images": torch.zeros(5, 3, 8, 8)},
        output="logits",
        architecture={},
    )

    def write(use_recorded_types):
        counted.clear()
        monkeypatch.setattr("worker.export.onnx_file.use_recorded_types", use_recorded_types)
        write_onnx(model, tmp_path / "model.onnx", opset=18, metadata={})
        graph = onnx.load(tmp_path / "model.onnx").graph
        return [(node.op_type, *node.input) for node in graph.node], len(counted)

    wanted, num_run = write(lambda: None)
    found, num_run_again = write(functools.cache(promotion.use_recorded_types.__wrapped__))
    assert found == wanted
    assert ("Cast" in {operator for operator, *_ in found}) is True
    assert 0 < num_run_again < num_run
