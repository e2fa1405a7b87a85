import pytest
import torch

from redkiln.spec import AdamW, Muon, Sgd
from worker.trainer.updates.optimizer import (
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


def network():
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 4, 3)
    return torch.nn.Sequential(convolution).to(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    "settings",
    [AdamW(), Sgd(), Sgd(momentum=0.0), Muon()],
    ids=["adamw", "sgd", "plain sgd", "muon"],
)
def test_a_restored_optimizer_goes_on_as_if_never_interrupted(settings):
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


def test_nesterov_without_momentum_is_plain_descent():
    assert build_optimizer(network(), Sgd(momentum=0.0)).defaults["nesterov"] is False


def test_what_is_frozen_has_no_optimizer_state():
    model = network()
    model[0].bias.requires_grad_(False)
    saved = optimizer_tensors(model, trained(AdamW(), model, 1))
    assert {name.rpartition("/")[0] for name in saved} == {"0.weight"}
