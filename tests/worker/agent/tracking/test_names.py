import pytest

from worker.agent.tracking.names import flatten, make_name


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("training.optimizer.lr", "training.optimizer.lr"),
        ("val/accuracy of für", "val/accuracy of für"),
        ("training.class_weights.>50K", "training.class_weights._50K-112c3242"),
        ("val/acc%", "val/acc_-"),
        ("../up", "_up-"),
        ("x" * 251, "x" * 241 + "-"),
    ],
)
def test_a_name_that_servers_refuse_is_replaced_by_a_valid_one(name, made):
    assert make_name(name).startswith(made)
    assert make_name(name) == name or len(make_name(name).rpartition("-")[2]) == 8


def test_a_spec_is_flattened_into_parameters():
    spec = {
        "model": {"name": "amdnet", "options": {"image_size": 32}},
        "training": {"optimizer": {"lr": 0.002, "betas": [0.9, 0.999]}, "ema": None},
    }
    assert dict(flatten(spec)) == {
        "model.name": "amdnet",
        "model.options.image_size": "32",
        "training.optimizer.lr": "0.002",
        "training.optimizer.betas": "[0.9, 0.999]",
    }


def test_a_long_value_is_cut_to_what_every_server_accepts():
    assert dict(flatten({"note": "x" * 1000})) == {"note": "x" * 500}
