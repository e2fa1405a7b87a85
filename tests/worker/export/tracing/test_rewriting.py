import functools

import onnx
import torch
from onnxscript.rewriter import _matcher
from torch import nn

from worker.export.exportable import Exportable
from worker.export.onnx_file import write_onnx
from worker.export.tracing import rewriting


class Simplified(nn.Module):
    """A network that the optimiser simplifies: layers of norms, and shapes that it knows."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten())
        self.norm = nn.LayerNorm(4 * 6 * 6)

    def forward(self, images):
        rows = self.norm(self.layers(images)).reshape(-1, 4, 36).transpose(1, 2)
        return rows.transpose(1, 2).reshape(len(images), -1) * 1.0 + 0.0


def test_the_optimiser_writes_the_same_graph_with_fewer_tries(tmp_path, monkeypatch):
    torch.manual_seed(0)
    counted = []
    match = _matcher.SimplePatternMatcher._match_node

    def match_node(self, *rest):
        counted.append(rest)
        return match(self, *rest)

    monkeypatch.setattr(_matcher.SimplePatternMatcher, "_match_node", match_node)
    match_any = _matcher.SimplePatternMatcher.match
    own = getattr(match_any, "__wrapped__", match_any)  # wrapped if another test has exported
    monkeypatch.setattr(_matcher.SimplePatternMatcher, "match", own)
    model = Exportable(
        Simplified().eval(),
        examples={"images": torch.zeros(2, 3, 8, 8)},
        others={"images": torch.zeros(5, 3, 8, 8)},
        output="logits",
        architecture={},
    )

    def write(try_fitting_rules):
        counted.clear()
        monkeypatch.setattr("worker.export.onnx_file.try_fitting_rules", try_fitting_rules)
        write_onnx(model, tmp_path / "model.onnx", opset=18, metadata={})
        graph = onnx.load(tmp_path / "model.onnx").graph
        return [(node.op_type, *node.input) for node in graph.node], len(counted)

    wanted, num_tries = write(lambda: None)
    found, num_tries_again = write(functools.cache(rewriting.try_fitting_rules.__wrapped__))
    assert found == wanted
    assert 0 < num_tries_again < num_tries / 2
