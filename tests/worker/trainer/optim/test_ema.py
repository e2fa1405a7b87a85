import pytest
import torch
from torch import nn

from worker.trainer.optim.ema import Ema


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def train(model, average, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(steps):
        inputs = torch.randn(8, 2, generator=torch.Generator().manual_seed(1))
        optimizer.zero_grad()
        model(inputs).square().sum().backward()
        optimizer.step()
        average.update()


def test_the_average_follows_its_formula():
    model = network()
    average = Ema(model, decay=0.75)
    expected = None
    for value in (1.0, 2.0, 4.0):
        with torch.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(value)
        average.update()
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
    average.update()
    model[1].running_mean = torch.full((2,), 8.0)
    average.update()
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


def test_an_average_continues_from_saved_state():
    straight = network()
    whole = Ema(straight, decay=0.9)
    train(straight, whole, 6)

    first = network()
    part = Ema(first, decay=0.9)
    train(first, part, 3)
    second = Ema(first, decay=0.9)
    second.load({name: tensor.clone() for name, tensor in part.tensors().items()}, has_begun=True)
    train(first, second, 3)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, second.tensors()[name]), name
