import pytest
import torch

from worker.trainer.models.dropout import ByteDropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_is_dropped_and_the_mean_is_kept(p):
    torch.manual_seed(0)
    layer = ByteDropout(p).train()
    found = layer(torch.ones(1000, 300))
    assert (found == 0).float().mean() == pytest.approx(p, abs=0.01)
    assert found.mean() == pytest.approx(1.0, abs=0.02)
    # Every byte of a random word is used alike.
    by_place = (found.view(-1, 8) == 0).float().mean(dim=0)
    assert by_place.max() - by_place.min() < 0.01


def test_dropped_values_have_no_gradient():
    values = torch.ones(64, 7, requires_grad=True)
    found = ByteDropout(0.5).train()(values)
    found.sum().backward()
    assert torch.equal(values.grad, found.detach())


def test_dropout_follows_the_generator_and_is_off_in_evaluation():
    layer, values = ByteDropout(0.3), torch.ones(50, 50)
    state = torch.get_rng_state()
    first = layer(values)
    assert not torch.equal(layer(values), first)
    torch.set_rng_state(state)
    assert torch.equal(layer(values), first)
    assert layer.eval()(values) is values
    assert ByteDropout(0.0).train()(values) is values


def test_compiled_dropout_drops_the_same_values():
    torch._dynamo.reset()
    layer, values = ByteDropout(0.3), torch.ones(50, 50)
    state = torch.get_rng_state()
    expected = layer(values)
    torch.set_rng_state(state)
    assert torch.equal(torch.compile(layer, backend="aot_eager")(values), expected)


def test_a_probability_close_to_one_does_not_divide_by_zero():
    assert torch.isfinite(ByteDropout(0.9999).train()(torch.ones(10, 10))).all()
