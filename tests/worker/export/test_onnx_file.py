import numpy as np
import onnx
import pytest
import torch

from redkiln.spec.exports import Export
from worker.export.exportable import Exportable
from worker.export.onnx_file import describe_file, open_session, write_onnx
from worker.export.rehearsal import rehearse_export
from worker.process.failed import TrainingFailed


class Pooled(torch.nn.Module):
    """Takes ids with a mask and further numbers, as models of text and of tables do."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 4)
        self.head = torch.nn.Linear(6, 3)

    def forward(self, ids, mask, numbers):
        weight = mask.unsqueeze(2).float()
        mean = (self.embedding(ids) * weight).sum(1) / weight.sum(1)
        return self.head(torch.cat([mean, torch.nan_to_num(numbers)], dim=1))


def inputs(batch, length):
    generator = torch.Generator().manual_seed(batch)
    return {
        "ids": torch.randint(0, 10, (batch, length), generator=generator),
        "mask": torch.ones(batch, length, dtype=torch.int64),
        "numbers": torch.randn(batch, 2, generator=generator),
    }


def exportable():
    torch.manual_seed(0)
    text = {0: "batch", 1: "sequence"}
    return Exportable(
        Pooled().eval().requires_grad_(False),
        examples=inputs(2, 4),
        others=inputs(5, 7),
        output="logits",
        architecture={},
        dynamic={"ids": text, "mask": text},
    )


def test_several_inputs_keep_their_names_and_dynamic_axes(tmp_path):
    path = tmp_path / "model.onnx"
    model = exportable()
    write_onnx(model, path, opset=20, metadata={"task": "test"})
    described = describe_file(path)["inputs"]
    assert [(i["name"], i["type"]) for i in described] == [
        ("ids", "int64"),
        ("mask", "int64"),
        ("numbers", "float"),
    ]
    assert described[0]["shape"] == described[1]["shape"] == ["batch", "sequence"]
    assert described[2]["shape"] == ["batch", 2]
    assert onnx.load(path).metadata_props[-1].value == "test"
    session = open_session(path, threads=1)
    for batch, length in ((1, 1), (1, 9), (3, 2)):
        given = inputs(batch, length)
        given["numbers"][0, 0] = float("nan")
        (logits,) = session.run(["logits"], {k: v.numpy() for k, v in given.items()})
        np.testing.assert_allclose(logits, model.module(*given.values()), atol=1e-5)


def test_a_rehearsal_compares_at_other_sizes(tmp_path):
    assert rehearse_export(exportable(), Export(), key="k", cache_dir=tmp_path, threads=1) < 1e-5


def averaging(*, normalizes=False):
    """A network of a convolution, GELU and a mean, whose operators have changed since opset 16."""
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(1, 4, 3), torch.nn.GELU(), torch.nn.Flatten(2), Mean()]
    module = torch.nn.Sequential(*layers, *([torch.nn.LayerNorm(4)] if normalizes else []))
    examples = {"images": torch.randn(2, 1, 6, 6)}
    others = {"images": torch.randn(5, 1, 6, 6)}
    return Exportable(
        module.eval().requires_grad_(False), examples, others, output="logits", architecture={}
    )


class Mean(torch.nn.Module):
    def forward(self, values):
        return values.mean(dim=2)


@pytest.mark.parametrize("opset", [16, 17])
def test_older_opsets_are_converted_with_their_metadata(tmp_path, opset):
    path, model = tmp_path / "model.onnx", averaging()
    write_onnx(model, path, opset=opset, metadata={"task": "test"})
    assert describe_file(path)["opset"] == opset
    assert {p.key: p.value for p in onnx.load(path).metadata_props}["task"] == "test"
    images = model.others["images"]
    (logits,) = open_session(path, threads=1).run(["logits"], {"images": images.numpy()})
    np.testing.assert_allclose(logits, model.module(images), atol=1e-5)


def test_an_operator_without_an_older_version_is_named(tmp_path):
    with pytest.raises(TrainingFailed, match=r"opset 16: .*LayerNormalization"):
        write_onnx(averaging(normalizes=True), tmp_path / "m.onnx", opset=16, metadata={})
