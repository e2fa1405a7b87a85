"""How fast an imported network trains: alternating steps with the network that it was made of.

Each step is measured in processor time of one thread, which other programs hardly change.
"""

import io
import statistics
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import torch
from torch import nn

from bench.result import Result, at_least
from redkiln.spec.image_models import Model, Options
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.module import OnnxModule
from worker.trainer.models import build_model

TARGET = 0.95
BATCH = 16
SIZE = 32
PAIRS = 9


def measure_speed() -> list[Result]:
    """Compare steps of resnet18 and of the same network from its own ONNX file."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_compare_steps()]
    finally:
        torch.set_num_threads(num_threads)


def _compare_steps() -> Result:
    torch.manual_seed(0)
    options = Options(image_size=SIZE, channels=3)
    network = build_model(Model(name="resnet18", options=options), num_classes=10).train()
    imported = _import(network)
    seconds = {network: [], imported: []}
    for one in (network, imported):
        _step(one)
    for _ in range(PAIRS):
        for one, times in seconds.items():
            times.append(_step(one))
    ratios = [a / b for a, b in zip(seconds[network], seconds[imported], strict=True)]
    quarters = statistics.quantiles(ratios, n=4)
    detail = (
        f"processor time of {PAIRS} alternating pairs, half in {quarters[0]:.3g}.."
        f"{quarters[2]:.3g}; batch {BATCH}, {SIZE}x{SIZE} pixels, fp32, {len(imported.norms)} "
        "batch norms in the file"
    )
    median = statistics.median(ratios)
    return at_least("imported resnet18, samples/s", median, "of the built-in", TARGET, detail)


def _import(network: nn.Module) -> OnnxModule:
    # Without optimisation the exporter leaves batch norms apart, so both do the same work.
    example = torch.rand(2, 3, SIZE, SIZE)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        path = Path(folder) / "resnet18.onnx"
        torch.onnx.export(
            network.eval(),
            (example,),
            path,
            dynamo=True,
            optimize=False,
            external_data=False,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            verbose=False,
        )
        network.train()
        return OnnxModule(read_classifier(path).model).train()


def _step(network: nn.Module) -> float:
    images, labels = torch.rand(BATCH, 3, SIZE, SIZE), torch.arange(BATCH) % 10
    started = time.process_time()
    nn.functional.cross_entropy(network(images), labels).backward()
    with torch.no_grad():
        for parameter in network.parameters():
            assert parameter.grad is not None
            parameter -= 1e-4 * parameter.grad
            parameter.grad = None
    return time.process_time() - started
