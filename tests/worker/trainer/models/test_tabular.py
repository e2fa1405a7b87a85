import pytest
import torch

from redkiln.spec.tabular import TabularModel
from worker.trainer.models.table_network import TableShape, auto_embedding_size
from worker.trainer.models.tabular import build_tabular_model, tabular_architecture

BOTH = TableShape(num_numbers=3, num_categories=[2, 0, 5], num_classes=4)
NUMBERS = TableShape(num_numbers=3, num_categories=[], num_classes=4)
PLACES = TableShape(num_numbers=0, num_categories=[2, 0, 5], num_classes=4)


def model_of(name):
    options = {} if name == "linear" else {"hidden": [8, 6], "embedding_size": 3}
    return TabularModel.model_validate({"name": name, "options": options})


def inputs_of(shape, num=5):
    parts = [torch.randn(num, shape.num_numbers)] if shape.num_numbers else []
    if shape.num_categories:
        parts.append(torch.tensor(shape.unknown_places).repeat(num, 1).int())
    return parts


@pytest.mark.parametrize("name", ["tabm", "mlp", "linear"])
@pytest.mark.parametrize("shape", [BOTH, NUMBERS, PLACES])
def test_every_network_accepts_every_kind_of_table(name, shape):
    network = build_tabular_model(model_of(name), shape)
    assert network.eval()(*inputs_of(shape)).shape == (5, 4)
    outputs = network.train()(*inputs_of(shape))
    outputs.sum().backward()
    assert all(p.grad is not None for p in network.parameters())


@pytest.mark.parametrize("name", ["tabm", "mlp", "linear"])
def test_a_regression_returns_one_value_per_row(name):
    shape = TableShape(num_numbers=3, num_categories=[2], num_classes=None)
    network = build_tabular_model(model_of(name), shape).eval()
    assert network(*inputs_of(shape)).shape == (5,)


def test_each_column_has_its_own_places():
    assert BOTH.unknown_places == [0, 3, 4]
    assert BOTH.num_places == 10


def test_the_embedding_of_unknown_values_is_zero():
    network = build_tabular_model(model_of("mlp"), BOTH)
    unknown = network.embedding.weight[BOTH.unknown_places]
    assert (unknown == 0).all()
    assert (network.embedding.weight[[1, 2, 5]] != 0).all()


def test_embeddings_grow_with_the_largest_column():
    assert auto_embedding_size([]) == 2
    assert auto_embedding_size([2]) == 3
    assert auto_embedding_size([2, 100]) == 21
    assert auto_embedding_size([10**6]) == 50


def test_an_architecture_contains_everything_that_decides_the_graph():
    both = tabular_architecture(model_of("mlp"), BOTH)
    assert both != tabular_architecture(model_of("mlp"), NUMBERS)
    assert both != tabular_architecture(model_of("linear"), BOTH)
