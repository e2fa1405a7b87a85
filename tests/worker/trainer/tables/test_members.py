import pytest
import torch
from torch.nn import functional

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.table_network import TableShape
from worker.trainer.models.tabular import build_tabular_model
from worker.trainer.tables.members import (
    MOST_FITTING_ROWS,
    average_losses,
    choose_ensemble_batch,
    spread_rows,
)


def network_of(num_classes):
    options = {"embedding_size": 2, "members": 3}
    model = TabularModel.model_validate({"name": "tabm", "options": options})
    return build_tabular_model(model, TableShape(2, [], num_classes))


def test_each_member_is_trained_on_its_own_loss():
    loss = average_losses(functional.cross_entropy, network_of(2))
    outputs, labels = torch.randn(5, 3, 2), torch.tensor([0, 1, 1, 0, 1])
    expected = sum(functional.cross_entropy(outputs[:, place], labels) for place in range(3)) / 3
    torch.testing.assert_close(loss(outputs, labels), expected)
    mean = outputs.mean(dim=1)
    torch.testing.assert_close(loss(mean, labels), functional.cross_entropy(mean, labels))


def test_values_are_compared_with_their_own_rows_target():
    loss = average_losses(functional.mse_loss, network_of(None))
    targets = torch.tensor([1.0, 2.0])
    assert loss(targets.unsqueeze(1).repeat(1, 3), targets) == 0
    assert loss(torch.tensor([0.0, 2.0]), targets) == 0.5


@pytest.mark.parametrize(
    ("num_train", "batch_size"), [(20, 20), (400, 32), (1600, 64), (10**4, 256), (10**7, 1024)]
)
def test_an_ensembles_batch_grows_with_the_table(num_train, batch_size):
    assert choose_ensemble_batch(num_train) == batch_size


def test_statistics_of_a_large_table_use_rows_of_its_whole_length():
    rows = spread_rows(torch.arange(10 * MOST_FITTING_ROWS))
    assert len(rows) == MOST_FITTING_ROWS
    assert (rows[0], rows[-1]) == (0, 10 * MOST_FITTING_ROWS - 1)
