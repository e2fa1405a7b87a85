import pytest
import torch
from torch import nn

from worker.trainer.optim.ema import MOST_STEPS, Ema, choose_interval


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


PER_EPOCH = 10


def follow(average, step):
    place = step % PER_EPOCH
    average.update(step, place=place, is_last=place + 1 == PER_EPOCH)


def train(model, average, steps, *, first=0):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(first, first + steps):
        inputs = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
        optimizer.zero_grad()
        model(inputs).square().sum().backward()
        optimizer.step()
        follow(average, step)


def test_the_average_follows_its_formula():
    model = network()
    average = Ema(model, decay=0.75)
    expected = None
    for step, value in enumerate((1.0, 2.0, 4.0)):
        with torch.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(value)
        follow(average, step)
        expected = value if expected is None else 0.75 * expected + 0.25 * value
    tensors = average.tensors()
    assert tensors["0.weight"].flatten().tolist() == pytest.approx([expected] * 4)
    assert tensors["1.running_mean"].tolist() == pytest.approx([expected] * 2)


def test_counts_are_those_of_the_model():
    model = network()
    average = Ema(model, decay=0.9)
    train(model, average, 3)
    assert average.tensors()["1.num_batches_tracked"] == 3


def test_a_buffer_that_another_layout_replaced_is_averaged():
    model = network()
    average = Ema(model, decay=0.5)
    follow(average, 0)
    model[1].running_mean = torch.full((2,), 8.0)
    follow(average, 1)
    assert average.tensors()["1.running_mean"].tolist() == [4.0, 4.0]


def test_a_model_gets_its_own_weights_back():
    model = network()
    average = Ema(model, decay=0.9)
    train(model, average, 3)
    own = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def break_off():
        with average.applied_to(model):
            assert torch.equal(model[0].weight, average.tensors()["0.weight"])
            assert not torch.equal(model[0].weight, own["0.weight"])
            raise RuntimeError("scoring broke off")

    with pytest.raises(RuntimeError, match="broke off"):
        break_off()
    assert all(torch.equal(own[name], tensor) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(
    ("decay", "steps"), [(0.5, 1), (0.9, 1), (0.95, 2), (0.98, 5), (0.99, 8), (0.999, 8)]
)
def test_an_average_over_more_steps_follows_more_at_once(decay, steps):
    assert choose_interval(decay) == steps


def test_what_remains_after_many_steps_does_not_depend_on_how_many_are_followed_at_once():
    model = network()
    average = Ema(model, decay=0.99)
    assert average.interval == MOST_STEPS
    kept = []
    for step in range(4 * PER_EPOCH):
        with torch.no_grad():
            model[0].weight.fill_(0.0 if step < MOST_STEPS else 1.0)
        follow(average, step)
        kept.append(1 - average.tensors()["0.weight"][0, 0].item())
    ends = range(PER_EPOCH - 1, len(kept), PER_EPOCH)
    expected = [0.99 ** (step + 1 - MOST_STEPS) for step in ends]
    assert [kept[step] for step in ends] == pytest.approx(expected, abs=1e-6)
    assert len(set(kept)) == 2 * len(ends), "it follows eight steps, then two to the epoch's end"


def test_an_average_is_the_weights_themselves_in_the_first_steps():
    model = network()
    average = Ema(model, decay=0.99)
    train(model, average, MOST_STEPS)
    assert torch.equal(average.tensors()["0.weight"], model[0].weight)
    train(model, average, 1, first=MOST_STEPS)
    assert not torch.equal(average.tensors()["0.weight"], model[0].weight)


@pytest.mark.parametrize("saved_at", [3, 9, 13])
def test_an_average_continues_from_saved_state(saved_at):
    straight = network()
    whole = Ema(straight, decay=0.97)
    train(straight, whole, 18)

    first = network()
    part = Ema(first, decay=0.97)
    train(first, part, saved_at)
    second = Ema(first, decay=0.97)
    second.load({name: tensor.clone() for name, tensor in part.tensors().items()})
    train(first, second, 18 - saved_at, first=saved_at)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
