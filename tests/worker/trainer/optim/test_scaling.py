import pytest
import torch
from torch import nn

from redkiln.spec.optimizers import AdamW, Muon, Sgd
from worker.trainer.optim.optimizer import build_optimizer
from worker.trainer.optim.scaling import MAX_SKIPPED_IN_A_ROW, LossScaling

OPTIMIZERS = [AdamW(), Sgd(), Muon()]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def make_step(model, scaling, *, factor=1.0, clip=None):
    inputs = torch.linspace(-1, 1, 24).reshape(4, 6)
    scaling.scale(model(inputs).square().mean() * factor).backward()
    if clip is not None:
        scaling.clip(list(model.parameters()), most=clip)
    scaling.step()
    for parameter in model.parameters():
        parameter.grad = None


def trained(settings, *, is_on, factors, clip=None):
    model = network()
    scaling = LossScaling(model, build_optimizer(model, settings), is_on=is_on)
    for factor in factors:
        make_step(model, scaling, factor=factor, clip=clip)
    return model, scaling


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda s: s.name)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_scaling_by_powers_of_two_changes_no_update(settings, clip):
    plain, _ = trained(settings, is_on=False, factors=[1.0] * 4, clip=clip)
    scaled, scaling = trained(settings, is_on=True, factors=[1.0] * 4, clip=clip)
    for left, right in zip(weights(plain), weights(scaled), strict=True):
        assert torch.allclose(left, right, rtol=1e-5, atol=1e-7)
    assert scaling.read_skipped(4) == [False] * 4


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda s: s.name)
@pytest.mark.parametrize("most", [1e-3, 1e3])
def test_a_clipped_step_is_that_of_clipped_gradients(settings, most):
    ours, _ = trained(settings, is_on=False, factors=[1.0] * 3, clip=most)
    theirs = network()
    optimizer = build_optimizer(theirs, settings)
    for _ in range(3):
        theirs(torch.linspace(-1, 1, 24).reshape(4, 6)).square().mean().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), most)
        optimizer.step()
        theirs.zero_grad()
    for left, right in zip(weights(ours), weights(theirs), strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-7)


def test_a_step_without_clipping_is_not_clipped_by_an_earlier_one():
    settings = Sgd(momentum=0.0, weight_decay=0.0, lr=1.0)
    model = network()
    scaling = LossScaling(model, build_optimizer(model, settings), is_on=False)
    make_step(model, scaling, clip=1e-9)
    before = weights(model)
    make_step(model, scaling)
    moved = [float((a - b).norm()) for a, b in zip(before, weights(model), strict=True)]
    assert max(moved) > 1e-3


@pytest.mark.parametrize("settings", OPTIMIZERS, ids=lambda s: s.name)
def test_a_step_that_overflows_changes_nothing_and_is_reported(settings):
    model, scaling = trained(settings, is_on=True, factors=[1.0])
    before = weights(model)
    make_step(model, scaling, factor=float("inf"))
    assert all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    make_step(model, scaling)
    assert not all(torch.equal(a, b) for a, b in zip(before, weights(model), strict=True))
    assert scaling.read_skipped(3) == [False, True, False]
    assert scaling.read_skipped(0) == []


def test_only_too_many_skipped_steps_in_a_row_are_reported():
    _, scaling = trained(Sgd(), is_on=True, factors=[])
    answers = [scaling.count(was_skipped=True) for _ in range(MAX_SKIPPED_IN_A_ROW - 1)]
    assert not any(answers)
    assert not scaling.count(was_skipped=False)
    assert [scaling.count(was_skipped=True) for _ in range(MAX_SKIPPED_IN_A_ROW)][-1]
    assert scaling.num_skipped == 2 * MAX_SKIPPED_IN_A_ROW - 1


def test_saved_scaling_state_is_restored():
    model, scaling = trained(Sgd(), is_on=True, factors=[1.0, float("inf"), 1.0])
    for was_skipped in scaling.read_skipped(3):
        scaling.count(was_skipped=was_skipped)
    other = LossScaling(model, build_optimizer(model, Sgd()), is_on=True)
    other.restore(scaling.state())
    assert other.state() == scaling.state()
    make_step(model, other)
    assert other.read_skipped(1) == [False]
    assert other.num_skipped == 1


def test_scaling_that_is_off_does_nothing():
    _, scaling = trained(Sgd(), is_on=False, factors=[1.0])
    loss = torch.tensor(3.0)
    assert scaling.scale(loss) is loss
    assert scaling.read_skipped(2) == [False, False]
    assert scaling.state()["scaler"] == {}
