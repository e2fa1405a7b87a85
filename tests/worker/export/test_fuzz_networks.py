"""Random small networks: exported, judged by the gate, and run by ONNX Runtime at several sizes.

`make fuzz` tries many; the fast tests try 10, always the same.
"""

import os

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from redkiln.spec.exports import Export
from worker.export.exportable import Exportable
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import compare_outputs, judge, onnx_predict
from worker.export.variants.convert import write_fp16, write_int8_dynamic
from worker.export.variants.loading import check_loads
from worker.export.variants.static import write_int8_static

CASES = int(os.environ.get("REDKILN_FUZZ_NETWORKS", "10"))
CHANNELS, SIDE, CLASSES = 3, 8, 4
BATCHES = (1, 7, 64)
GATE = Export()
MOST_ERROR = {"fp16": 0.01, "int8-dynamic": 0.1, "int8-static": 0.1}
"""Largest mean error of a variant, as a part of the largest output."""


class Residual(nn.Module):
    """Adds what its layers compute to their input."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


class Attention(nn.Module):
    """Attention among the pixels of an image."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        tokens = x.flatten(2).transpose(1, 2)
        normal = self.norm(tokens)
        mixed, _ = self.attention(normal, normal, normal, need_weights=False)
        return x + mixed.transpose(1, 2).reshape(x.shape)


def batch_norm(width):
    """Batch normalisation that has seen data, so that evaluation differs from training."""
    norm = nn.BatchNorm2d(width)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    return norm


def convolution(width, out, *, kernel=3, **options):
    return nn.Conv2d(width, out, kernel, padding=kernel // 2, **options)


LAYERS = {
    "convolution": lambda width: convolution(width, width),
    "strided": lambda width: convolution(width, width, stride=2),
    "pointwise": lambda width: convolution(width, width, kernel=1, bias=False),
    "depthwise": lambda width: convolution(width, width, groups=width),
    "dilated": lambda width: nn.Conv2d(width, width, 3, padding=2, dilation=2),
    "batch norm": batch_norm,
    "group norm": lambda width: nn.GroupNorm(2, width),
    "relu": lambda _: nn.ReLU(),
    "gelu": lambda _: nn.GELU(),
    "silu": lambda _: nn.SiLU(),
    "max pool": lambda _: nn.MaxPool2d(3, stride=2, padding=1),
    "average pool": lambda _: nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
    "residual": lambda width: Residual(convolution(width, width), batch_norm(width), nn.ReLU()),
    "attention": lambda width: Attention(width, heads=2),
    "dropout": lambda _: nn.Dropout(0.5),
}

networks = st.builds(
    lambda names, width, seed: (names, width, seed),
    st.lists(st.sampled_from(sorted(LAYERS)), min_size=1, max_size=6),
    st.sampled_from((4, 8)),
    st.integers(0, 2**16),
)


def build(names, width, seed):
    torch.manual_seed(seed)
    layers = [convolution(CHANNELS, width), *(LAYERS[name](width) for name in names)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES)]
    return nn.Sequential(*layers, *head).eval().requires_grad_(False)


def images(batch, seed=0):
    shape = (batch, CHANNELS, SIDE, SIDE)
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def export(module, path):
    exportable = Exportable(
        module,
        examples={"images": torch.from_numpy(images(2))},
        others={"images": torch.from_numpy(images(5))},
        output="logits",
        architecture={},
    )
    write_onnx(exportable, path, opset=GATE.opset, metadata={})
    return exportable


def differences(exportable, path):
    predict = onnx_predict(open_session(path, threads=1))
    for batch in BATCHES:
        inputs = {"images": images(batch, seed=batch)}
        yield compare_outputs(predict(inputs), exportable.predict(inputs))


@settings(
    max_examples=CASES,
    deadline=None,
    derandomize="REDKILN_FUZZ_NETWORKS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(networks)
def test_random_networks_pass_the_gate_at_every_batch_size(tmp_path_factory, network):
    path = tmp_path_factory.mktemp("network") / "model.onnx"
    exportable = export(build(*network), path)
    for difference in differences(exportable, path):
        assert judge(GATE, difference=difference, metric_drop=0.0).misses == []


def crashes(path):
    """Return whether ONNX Runtime crashes on a file, as on some fp16 files with attention."""
    try:
        check_loads(path)
    except ValueError as error:
        return "crashes" in str(error)
    return False


@settings(
    max_examples=max(3, CASES // 4),
    deadline=None,
    derandomize="REDKILN_FUZZ_NETWORKS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
@given(networks)
def test_variants_of_random_networks_follow_the_float32_file(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("network")
    source = folder / "model.onnx"
    exportable = export(build(*network), source)
    files = {name: folder / f"{name}.onnx" for name in ("fp16", "int8-dynamic", "int8-static")}
    write_fp16(source, files["fp16"], metadata={})
    write_int8_dynamic(source, files["int8-dynamic"], metadata={})
    batches = [{"images": images(16, seed=seed)} for seed in range(2)]
    write_int8_static(
        source, files["int8-static"], metadata={}, batches=batches, rate=lambda _: (0.0, 0.0),
        max_drop=1.0, on_file=lambda: None,
    )  # fmt: skip
    for name, path in files.items():
        if crashes(path):  # a job lists the variant with this reason
            assert (name, "attention" in network[0]) == ("fp16", True)
            continue
        for difference in differences(exportable, path):
            scale = difference.max_abs / max(difference.relative, 1e-12)
            assert difference.mean_abs <= MOST_ERROR[name] * scale


@pytest.mark.parametrize(
    ("fault", "miss"),
    [
        (lambda net: net[0].bias.zero_(), "outputs differ by up to"),
        (lambda net: net[1].running_mean.zero_(), "outputs differ by up to"),
        (lambda net: net[-1].weight.copy_(net[-1].weight.flip(0)), "outputs differ by up to"),
    ],
    ids=["dropped bias", "statistics of another epoch", "class order"],
)
def test_the_same_gate_refuses_a_network_with_a_fault(tmp_path, fault, miss):
    network = (["batch norm", "relu"], 4, 1)
    exportable = export(build(*network), tmp_path / "model.onnx")
    fault(exportable.module)
    found = [
        judge(GATE, difference=difference, metric_drop=0.0).misses
        for difference in differences(exportable, tmp_path / "model.onnx")
    ]
    assert all(miss in misses[0] for misses in found)
