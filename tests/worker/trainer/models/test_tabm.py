import pytest
import torch

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabm import PiecewiseLinear, TabM

SHAPE = TableShape(num_numbers=2, num_categories=[3], num_classes=3)


def model_of(**options):
    options = {"hidden": [8], "embedding_size": 2, "members": 4, "dropout": 0.0, **options}
    return TabularModel.model_validate({"name": "tabm", "options": options})


def rows(num=60):
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randn(num, 2, generator=generator)
    places = torch.randint(4, (num, 1), generator=generator)
    return numbers, places, (numbers[:, 0] > 0).long()


def test_training_returns_every_members_outputs_and_they_differ():
    torch.manual_seed(0)
    network = TabM(SHAPE, model_of())
    numbers, places, _ = rows()
    outputs = network.train()(numbers, places)
    assert outputs.shape == (60, 4, 3)
    assert not torch.allclose(outputs[:, 0], outputs[:, 1])


def test_a_prediction_is_the_mean_probability_of_the_members():
    torch.manual_seed(0)
    network = TabM(SHAPE, model_of())
    numbers, places, _ = rows()
    members = network.train()(numbers, places)
    logits = network.eval()(numbers, places)
    torch.testing.assert_close(logits.exp(), members.softmax(dim=2).mean(dim=1))


def test_a_predicted_value_is_the_mean_of_the_members():
    shape = TableShape(num_numbers=2, num_categories=[], num_classes=None)
    network = TabM(shape, model_of())
    numbers, _, _ = rows()
    members = network.train()(numbers)
    assert members.shape == (60, 4)
    torch.testing.assert_close(network.eval()(numbers), members.mean(dim=1))


def test_bins_follow_the_quantiles_and_missing_ones_pass_nothing_on():
    embed = PiecewiseLinear(2, bins=4, size=3)
    numbers = torch.stack([torch.arange(9.0), torch.tensor([0.0, 1.0, 1.0] * 3)], dim=1)
    embed.fit(numbers)
    assert embed.starts[0].tolist() == [0, 2, 4, 6]
    assert embed.slopes[0].tolist() == [0.5, 0.5, 0.5, 0.5]
    assert embed.slopes[1].tolist() == [1, 0, 0, 0]
    torch.nn.init.ones_(embed.bends)
    torch.nn.init.zeros_(embed.weight)
    torch.nn.init.zeros_(embed.bias)
    # The sum of all bins is how far a number has come through them.
    found = embed(torch.tensor([[3.0, 0.5], [-5.0, 2.0]]))[:, :, 0]
    assert found.tolist() == [[1.5, 0.5], [0.0, 1.0]]


def test_what_is_computed_from_rows_travels_with_the_weights():
    network = TabM(SHAPE, model_of())
    network.fit(*rows())
    other = TabM(SHAPE, model_of())
    other.load_state_dict(network.state_dict())
    numbers, places, _ = rows()
    assert torch.equal(other.eval()(numbers, places), network.eval()(numbers, places))


@pytest.mark.parametrize("value", [1e30, -1e30])
def test_logits_stay_finite_for_extreme_numbers(value):
    network = TabM(SHAPE, model_of()).eval()
    network.fit(*rows())
    assert network(torch.full((1, 2), value), torch.zeros(1, 1).long()).isfinite().all()
