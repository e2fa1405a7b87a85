import pytest
import torch

from redkiln.spec.image_models import TRANSFORMERS
from redkiln.tasks.image_classification import Model
from worker.trainer.models import build_model
from worker.trainer.models.backbone import find_head
from worker.trainer.models.from_transformers import build_from_transformers, complete_config

NAMES = ["mnist-cnn", "amdnet", "resnet18", "small-cnn"]


def build(name, size, channels, classes=7):
    return build_model(
        Model(name=name, options={"image_size": size, "channels": channels}), num_classes=classes
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [8, 9, 28, 33, 65, 224])
def test_every_model_accepts_every_size(name, size, channels):
    model = build(name, size, channels).eval()
    with torch.inference_mode():
        logits = model(torch.rand(2, channels, size, size))
    assert logits.shape == (2, 7)
    assert bool(torch.isfinite(logits).all())


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_gets_a_gradient(name):
    model = build(name, 12, 3)
    torch.nn.functional.cross_entropy(
        model(torch.rand(4, 3, 12, 12)), torch.tensor([0, 1, 2, 3])
    ).backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.parameters())


def test_the_models_match_the_documented_list():
    convolutions = {
        name: [m.out_channels for m in build(name, 32, 3).modules() if is_convolution(m, 3)]
        for name in NAMES
    }
    assert convolutions["mnist-cnn"] == [8, 16, 24]
    assert convolutions["amdnet"] == [32, 64]
    assert convolutions["small-cnn"] == [32, 64, 64, 128, 128]
    assert convolutions["resnet18"] == [64] * 5 + [128] * 4 + [256] * 4 + [512] * 4


def test_resnet18_has_the_weights_of_its_paper():
    weights = sum(p.numel() for p in build("resnet18", 224, 3, classes=1000).parameters())
    assert weights == 11_689_512


def is_convolution(module, side):
    return isinstance(module, torch.nn.Conv2d) and module.kernel_size == (side, side)


ALL_BACKBONE = ("clip", "hgnet_v2", "perceiver", "siglip")
"""Types whose classifiers call all of themselves the backbone."""


@pytest.mark.parametrize("name", [*TRANSFORMERS, *ALL_BACKBONE, "hiera"])
def test_every_documented_transformers_model_is_built_with_a_head_for_the_classes(name):
    options = {"image_size": 224, "channels": 3}
    model = Model.model_validate({"source": "transformers", "name": name, "options": options})
    with torch.device("meta"):  # neither memory nor time
        model.config = complete_config(model, None, image_size=224, channels=3, num_classes=7)
        network = build_from_transformers(model, num_classes=7)
    head = {id(parameter) for parameter in find_head(network).parameters()}
    of_classes = {id(p) for p in network.parameters() if len(p) == 7}
    assert of_classes
    assert of_classes <= head
    assert len(head) < len(list(network.parameters()))
