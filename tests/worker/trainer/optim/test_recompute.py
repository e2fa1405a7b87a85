import copy

import pytest
import torch
from torch import nn

from redkiln.tasks.image_classification import Model
from worker.trainer.models import build_model
from worker.trainer.optim.recompute import find_blocks, recompute_activations


def build(name, size=16):
    torch.manual_seed(0)
    options = {"image_size": size, "channels": 3}
    return build_model(Model(name=name, options=options), num_classes=3)


class Kept:
    """Counts the bytes that a forward pass keeps for the backward pass."""

    def __init__(self, model, images):
        self.num_bytes = 0
        with torch.autograd.graph.saved_tensors_hooks(self._note, lambda kept: kept):
            self.outputs = model(images)

    def _note(self, tensor):
        self.num_bytes += tensor.nbytes
        return tensor


@pytest.mark.parametrize("name", ["amdnet", "mnist-cnn", "resnet18"])
def test_recomputing_saves_memory_and_changes_no_result(name):
    plain = build(name).train()
    saving = copy.deepcopy(plain)
    recompute_activations(saving)
    images = torch.randn(4, 3, 16, 16)
    kept = []
    for model in (plain, saving):
        torch.manual_seed(1)
        step = Kept(model, images)
        step.outputs.square().sum().backward()
        kept.append(step.num_bytes)
    assert kept[1] < kept[0]
    for (path, one), other in zip(plain.named_parameters(), saving.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad), path
    assert plain.state_dict().keys() == saving.state_dict().keys()
    for path, tensor in plain.state_dict().items():
        assert torch.equal(tensor, saving.state_dict()[path]), path


@pytest.mark.parametrize(("name", "num"), [("resnet18", 8), ("amdnet", 3), ("mnist-cnn", 3)])
def test_blocks_are_the_parts_of_the_longest_chain(name, num):
    assert len(find_blocks(build(name))) == num


class WithSwitch(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.options = None

    def gradient_checkpointing_enable(self, gradient_checkpointing_kwargs):
        self.options = gradient_checkpointing_kwargs


def test_a_models_own_switch_is_used():
    model = nn.Sequential(WithSwitch())
    assert "own switch" in recompute_activations(model)
    assert model[0].options == {"use_reentrant": False}
