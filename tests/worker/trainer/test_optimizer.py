import pytest
import torch

from redkiln.spec import AdamW, Schedule, Sgd
from worker.trainer.optimizer import (
    build_optimizer,
    learning_rate,
    load_optimizer_tensors,
    optimizer_tensors,
)


def test_cosine_starts_at_the_rate_and_falls_to_zero():
    rates = [learning_rate(Schedule(), start=0.4, step=s, steps=100) for s in (0, 50, 100)]
    assert rates == pytest.approx([0.4, 0.2, 0.0])


def test_constant_stays():
    schedule = Schedule(name="constant")
    assert learning_rate(schedule, start=0.4, step=99, steps=100) == 0.4


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
    "settings", [AdamW(), Sgd(), Sgd(momentum=0.0)], ids=["adamw", "sgd", "plain sgd"]
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
