import pytest
import torch
from torch import nn

from redkiln.spec.image_models import Model
from worker.trainer.models import build_model
from worker.trainer.models.backbone import Freezer, find_head


def build(name):
    model = Model.model_validate({"name": name, "options": {"image_size": 16, "channels": 1}})
    return build_model(model, num_classes=3)


@pytest.mark.parametrize("name", ["amdnet", "cifar-fast", "mnist-cnn", "resnet18", "small-cnn"])
def test_the_head_of_a_builtin_model_is_its_last_layer(name):
    network = build(name)
    assert find_head(network) is network.head
    assert network.head.out_features == 3


def test_a_frozen_backbone_keeps_its_weights_and_statistics():
    network = build("mnist-cnn")
    freezer = Freezer(network, epochs=1)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1)
    network.train()
    freezer.apply(0)
    network(torch.rand(4, 1, 16, 16)).sum().backward()
    optimizer.step()
    changed = {n for n, t in network.state_dict().items() if not torch.equal(t, before[n])}
    assert changed == {"head.weight", "head.bias"}
    assert set(optimizer.state) == set(network.head.parameters())


def test_thawed_weights_are_trained_again():
    network = build("mnist-cnn")
    freezer = Freezer(network, epochs=2)
    network.train()
    freezer.apply(1)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert not any(norm.training for norm in norms)
    assert network.head.training
    network.train()  # an evaluation ends like this
    freezer.apply(1)
    assert not any(norm.training for norm in norms)
    freezer.apply(2)
    assert all(norm.training for norm in norms)
    assert all(parameter.requires_grad for parameter in network.parameters())
    # A rollback may lead back into the frozen epochs.
    freezer.apply(0)
    assert not any(norm.training for norm in norms)


def test_batch_norms_replaced_before_training_are_frozen_too():
    network = build("mnist-cnn")
    freezer = Freezer(network, epochs=1)
    nn.SyncBatchNorm.convert_sync_batchnorm(network)
    network.train()
    freezer.apply(0)
    norms = [m for m in network.modules() if isinstance(m, nn.SyncBatchNorm)]
    assert norms
    assert not any(norm.training for norm in norms)
    freezer.apply(1)
    assert all(norm.training for norm in norms)


def test_weights_that_were_never_trained_do_not_thaw():
    network = build("mnist-cnn")
    first = next(network.parameters())
    first.requires_grad_(False)
    freezer = Freezer(network, epochs=1)
    freezer.apply(0)
    freezer.apply(1)
    assert not first.requires_grad
