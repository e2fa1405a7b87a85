import copy

import pytest
import torch
from torch import nn

from redkiln.spec.optimizers import AdamW, Muon
from worker.trainer.optim.muon import MuonWithAdamW, split_parameters
from worker.trainer.optim.optimizer import (
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
)


def network(memory_format=torch.contiguous_format):
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.Flatten(),
        nn.Linear(144, 8),
        nn.Linear(8, 2),
    ]
    return nn.Sequential(*layers).to(memory_format=memory_format)


def names(model, parameters):
    wanted = {id(p) for p in parameters}
    return [name for name, p in model.named_parameters() if id(p) in wanted]


def test_matrices_and_convolutions_are_muons_and_the_head_is_not():
    model = network()
    matrices, others = split_parameters(model)
    assert names(model, matrices) == ["0.weight", "3.weight"]
    assert "4.weight" in names(model, others)
    assert "1.weight" in names(model, others)


def test_embeddings_are_not_muons():
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    matrices, _ = split_parameters(model)
    assert names(model, matrices) == ["1.weight"]


def steps(model, count):
    optimizer = MuonWithAdamW(model, Muon(lr=0.02))
    images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(2))
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (model(images) - torch.tensor([1.0, -1.0])).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_every_parameter_moves_and_the_loss_falls():
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    losses = steps(model, 8)
    assert losses[-1] < losses[0] / 2
    for (name, old), new in zip(
        zip(dict(model.named_parameters()), before, strict=True), model.parameters(), strict=True
    ):
        # Under batch norm a convolution's bias has no effect, so no gradient to speak of.
        assert name == "0.bias" or not torch.equal(old, new), name


def test_a_convolution_is_updated_the_same_in_either_memory_layout():
    updates = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        model = network(memory_format)
        before = model[0].weight.detach().clone()
        steps(model, 1)
        updates.append((model[0].weight.detach() - before).contiguous().flatten())
        assert model[0].weight.is_contiguous(memory_format=memory_format)
    # The orthogonal update is computed in bfloat16, which rounds to three digits.
    assert torch.cosine_similarity(*updates, dim=0) > 0.995


def test_the_update_of_a_convolution_is_that_of_its_matrix():
    model = network()
    matrix = nn.Parameter(model[0].weight.detach().clone().reshape(4, -1))
    torch.manual_seed(1)
    gradient = torch.randn(4, 27)
    matrix.grad = gradient
    alone = torch.optim.Muon(
        [matrix], lr=0.02, weight_decay=0.01, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    alone.step()
    optimizer = MuonWithAdamW(model, Muon(lr=0.02))
    model[0].weight.grad = gradient.reshape(4, 3, 3, 3)
    optimizer.step()
    assert torch.equal(model[0].weight.reshape(4, -1), matrix)


@pytest.mark.parametrize(
    "layers",
    [[nn.Embedding(10, 4), nn.Linear(4, 2)], [nn.Embedding(10, 4, padding_idx=0)]],
    ids=["a head", "nothing else"],
)
def test_a_model_without_matrices_is_adamws_alone(layers):
    models = [nn.Sequential(*copy.deepcopy(layers)) for _ in range(2)]
    settings = Muon(lr=0.02)
    ours = build_optimizer(models[0], settings)
    theirs = build_optimizer(models[1], AdamW(lr=0.02, weight_decay=settings.weight_decay))
    for model, optimizer in zip(models, (ours, theirs), strict=True):
        for _ in range(3):
            model(torch.arange(8)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)
    saved = optimizer_tensors(models[0], ours)
    assert saved.keys() == optimizer_tensors(models[1], theirs).keys()
    load_optimizer_tensors(models[0], ours, saved)


def test_a_model_of_matrices_alone_has_no_adamw():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False))
    optimizer = build_optimizer(model, Muon())
    before = model[0].weight.detach().clone()
    model(torch.randn(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    assert not torch.equal(model[0].weight, before)
    saved = optimizer_tensors(model, optimizer)
    assert saved.keys() == {"0.weight/momentum_buffer"}
    load_optimizer_tensors(model, optimizer, saved)


def test_a_rate_of_zero_on_all_groups_changes_no_weights():
    model = network()
    optimizer = MuonWithAdamW(model, Muon(weight_decay=0.0))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(2, 3, 8, 8)).square().mean().backward()
    optimizer.step()
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
