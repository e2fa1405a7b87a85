from typing import get_args

import pytest
import torch

from redkiln.spec.optimizers import (
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    Lion,
    Muon,
    Optimizer,
    RmsProp,
    Sgd,
)
from worker.trainer.optim.optimizer import (
    build_optimizer,
    load_optimizer_tensors,
    optimizer_tensors,
)


def trained(settings, model, steps):
    optimizer = build_optimizer(model, settings)
    step(model, optimizer, steps)
    return optimizer


def step(model, optimizer, steps):
    for _ in range(steps):
        model(torch.ones(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def network(memory_format=torch.channels_last):
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 4, 3)
    return torch.nn.Sequential(convolution).to(memory_format=memory_format)


EVERY = [
    AdamW(),
    Sgd(),
    Muon(),
    Adam(weight_decay=0.1),
    Lion(),
    RmsProp(momentum=0.9, centered=True),
    Adagrad(lr_decay=0.1),
    Adadelta(),
    Adafactor(),
]


def test_every_optimizer_of_a_spec_is_tested():
    options = get_args(get_args(Optimizer)[0])
    assert {get_args(option)[0] for option in options} == {type(one) for one in EVERY}


@pytest.mark.parametrize(
    "settings", [*EVERY, Sgd(momentum=0.0), RmsProp()], ids=lambda settings: repr(settings)[:40]
)
def test_a_restored_optimizer_continues_as_if_never_interrupted(settings):
    straight = network()
    trained(settings, straight, 6)

    first = network()
    saved = optimizer_tensors(first, trained(settings, first, 3))
    second = network()
    second.load_state_dict(first.state_dict())
    optimizer = build_optimizer(second, settings)
    # Saved files hold contiguous tensors, whatever the layout was.
    load_optimizer_tensors(second, optimizer, {k: v.contiguous() for k, v in saved.items()})
    step(second, optimizer, 3)

    for a, b in zip(straight.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


LAYOUTS = [torch.channels_last, torch.contiguous_format]


def on_noise(model, optimizer, seeds):
    """Steps whose gradients differ within a filter, as those of equal pixels do not."""
    for seed in seeds:
        images = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
        (model(images) - images.mean()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(("made_in", "loaded_in"), [LAYOUTS, LAYOUTS[::-1]])
@pytest.mark.parametrize(
    "settings",
    [Muon(lr=0.02) if isinstance(one, Muon) else one for one in EVERY],
    ids=lambda settings: settings.name,
)
def test_an_optimizer_continues_in_another_layout_as_if_never_interrupted(
    settings, made_in, loaded_in
):
    straight = network(made_in)
    optimizer = build_optimizer(straight, settings)
    on_noise(straight, optimizer, range(5))
    weights = {name: tensor.clone() for name, tensor in straight.state_dict().items()}
    saved = optimizer_tensors(straight, optimizer)
    saved = {name: tensor.contiguous().clone() for name, tensor in saved.items()}
    other = network(loaded_in)
    other.load_state_dict(weights)
    resumed = build_optimizer(other, settings)
    load_optimizer_tensors(other, resumed, saved)
    again = optimizer_tensors(other, resumed)
    assert all(torch.equal(tensor, again[name]) for name, tensor in saved.items())
    on_noise(straight, optimizer, range(5, 8))
    on_noise(other, resumed, range(5, 8))
    for (name, before), a, b in zip(
        weights.items(), straight.parameters(), other.parameters(), strict=True
    ):
        moved = (a - before).flatten(), (b - before).flatten()
        # Muon's update is computed in bfloat16, which rounds to three digits.
        assert torch.cosine_similarity(*moved, dim=0) > 0.999, name


@pytest.mark.parametrize("memory_format", LAYOUTS)
def test_a_momentum_saved_as_a_matrix_continues_in_its_own_layout(memory_format):
    straight = network(memory_format)
    optimizer = build_optimizer(straight, Muon())
    on_noise(straight, optimizer, range(3))
    saved = optimizer_tensors(straight, optimizer)
    saved["0.weight/momentum_buffer"] = optimizer.state[straight[0].weight]["momentum_buffer"]
    assert saved["0.weight/momentum_buffer"].shape == (4, 27)
    saved = {name: tensor.clone() for name, tensor in saved.items()}
    other = network(memory_format)
    other.load_state_dict(straight.state_dict())
    resumed = build_optimizer(other, Muon())
    load_optimizer_tensors(other, resumed, saved)
    on_noise(straight, optimizer, range(3, 6))
    on_noise(other, resumed, range(3, 6))
    assert torch.equal(straight[0].weight, other[0].weight)


def test_nesterov_without_momentum_is_plain_descent():
    assert build_optimizer(network(), Sgd(momentum=0.0)).defaults["nesterov"] is False


def test_frozen_parameters_have_no_optimizer_state():
    model = network()
    model[0].bias.requires_grad_(False)
    saved = optimizer_tensors(model, trained(AdamW(), model, 1))
    assert {name.rpartition("/")[0] for name in saved} == {"0.weight"}
