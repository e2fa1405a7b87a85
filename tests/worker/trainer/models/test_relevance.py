import pytest
import torch

from worker.trainer.models.relevance import (
    find_quantiles,
    find_variance_ratio,
    scale_by_ratio,
    weigh_columns,
)
from worker.trainer.models.table_network import TableShape


def noise(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def test_quantiles_are_different_and_in_order():
    values = torch.tensor([3.0, 1.0, 1.0, 1.0, 2.0])
    assert find_quantiles(values, torch.linspace(0, 1, 5)).tolist() == [1, 2, 3]


def test_the_variance_ratio_is_that_of_an_analysis_of_variance():
    groups = torch.tensor([0, 0, 1, 1])
    values = torch.tensor([1.0, 3.0, 7.0, 9.0])
    # Between the groups 36 with 1 degree of freedom, within them 4 with 2.
    errors = (values - values.mean()).unsqueeze(1)
    assert find_variance_ratio(groups, errors) == pytest.approx(18.0)


@pytest.mark.parametrize("groups", [[0, 0, 0], [0, 1, 2]])
def test_a_column_that_says_nothing_has_no_ratio(groups):
    assert find_variance_ratio(torch.tensor(groups), torch.ones(3, 1)) == 0.0


def test_noise_is_scaled_down_where_columns_outnumber_rows():
    targets = (noise(300, seed=1) > 0).long()
    numbers = noise(300, 400)
    numbers[:, 7] += 2 * targets
    shape = TableShape(num_numbers=400, num_categories=[], num_classes=2)
    scales = weigh_columns(numbers, None, targets, shape=shape)
    assert scales.argmax() == 7
    assert scales[7] > 10 * scales.median()
    assert scales.square().mean() == pytest.approx(1.0)


def test_every_column_counts_the_same_where_rows_are_many():
    ratios = torch.tensor([1.0, 50.0, 0.2])
    torch.testing.assert_close(scale_by_ratio(ratios, num_rows=10_000), torch.ones(3))


def test_flags_and_categories_are_weighed_like_numbers():
    flag = (torch.arange(200) % 10 == 0).float()
    places = torch.stack([torch.arange(200) % 3, 4 + torch.arange(200) % 2], dim=1)
    values = 3 * flag + places[:, 1] + 0.1 * noise(200)
    shape = TableShape(num_numbers=2, num_categories=[3, 1], num_classes=None)
    numbers = torch.stack([noise(200, seed=2), flag], dim=1)
    scales = weigh_columns(numbers, places, values, shape=shape)
    assert sorted(scales.topk(2).indices.tolist()) == [1, 3]
