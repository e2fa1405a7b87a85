"""Networks of torch that are exported and come back as ONNX files, before anything is trained."""

import pytest
import torch
from torch import nn

from redkiln.spec.image_models import Model, Options
from worker.export.onnx_file import write_onnx
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.module import OnnxModule
from worker.tasks.image_classification.exported import make_exportable
from worker.trainer.models import build_model
from worker.trainer.models.from_transformers import complete_config

SIZE = 32
CONFIGS = {
    "vit": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    | {"intermediate_size": 32, "patch_size": 8},
    "convnext": {"hidden_sizes": [16, 32], "depths": [1, 1], "num_stages": 2, "patch_size": 2},
    "efficientnet": {"width_coefficient": 0.25, "depth_coefficient": 0.2, "hidden_dim": 320},
}
MERGED = {"resnet18", "efficientnet"}
"""Networks whose batch norms the exporter merges into convolutions, which changes training."""


def build(name):
    options = Options(image_size=SIZE, channels=3, dropout=0.0)
    source = "transformers" if name in CONFIGS else "builtin"
    model = Model(source=source, name=name, options=options, config=CONFIGS.get(name, {}))
    if source == "transformers":
        facts = {"image_size": SIZE, "channels": 3, "num_classes": 10}
        model.config = complete_config(model, None, **facts)
    return build_model(model, num_classes=10)


class Unmerged(nn.Sequential):
    """Batch norms that no convolution precedes, so that the exporter keeps them."""

    def __init__(self):
        super().__init__(
            nn.BatchNorm2d(3),
            nn.Conv2d(3, 4, 3),
            nn.ReLU(),
            nn.BatchNorm2d(4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 10),
        )


@pytest.mark.parametrize("name", ["unmerged", "resnet18", *CONFIGS])
def test_an_exported_network_comes_back_and_takes_the_same_step_in_training(tmp_path, name):
    torch.manual_seed(0)
    network = Unmerged() if name == "unmerged" else build(name)
    facts = {"mean": [0.4] * 3, "std": [0.3] * 3, "image_size": SIZE}
    exportable = make_exportable(network, architecture={}, **facts)
    write_onnx(exportable, tmp_path / "net.onnx", opset=20, metadata={})
    module = OnnxModule(read_classifier(tmp_path / "net.onnx").model).eval()
    original = exportable.module.requires_grad_(True).eval()
    x, labels = torch.rand(4, 3, SIZE, SIZE), torch.arange(4)
    torch.testing.assert_close(module(x), original(x), rtol=1e-3, atol=1e-4)
    if name in MERGED:
        return
    for one in (original.train(), module.train()):
        nn.functional.cross_entropy(one(x), labels).backward()
    norms = [norm for norm in original.modules() if isinstance(norm, nn.BatchNorm2d)]
    assert len(module.norms) == len(norms)
    for ours, theirs in zip(module.norms.values(), norms, strict=True):
        torch.testing.assert_close(ours.running_var, theirs.running_var)
    ours, theirs = sizes_of_gradients(module), sizes_of_gradients(original)
    assert len(ours) > 0.8 * len(theirs)
    # The exporter computes some constants ahead, so a gradient of torch may have no counterpart.
    nearest = (ours[:, None] - theirs).abs().amin(1)
    assert (nearest <= 1e-3 * ours + 1e-5).all()


def sizes_of_gradients(module):
    """Return the norm of each gradient; matrices may be stored transposed."""
    return torch.stack([p.grad.norm() for p in module.parameters() if p.grad is not None])
