import pytest

from worker.trainer.resumed import follow_checkpoint, is_same_device

ASKED = {
    "dataset": "d",
    "training": {"epochs": 3, "batch_size": "auto", "precision": "auto"},
}
RESOLVED = {
    "dataset": "d",
    "model": {"name": "amdnet"},
    "training": {"epochs": 3, "batch_size": 64, "precision": "bf16", "accumulation": 4},
}


def test_on_the_same_device_the_resolved_spec_is_kept():
    assert follow_checkpoint(ASKED, RESOLVED, is_same_device=True) == RESOLVED


def test_on_another_device_device_specific_values_are_chosen_again():
    followed = follow_checkpoint(ASKED, RESOLVED, is_same_device=False)
    assert followed["training"] == {
        "epochs": 3,
        "batch_size": 64,
        "precision": "auto",
        "accumulation": 4,
    }
    assert followed["model"] == {"name": "amdnet"}


@pytest.mark.parametrize(
    ("made_on", "is_same"),
    [
        ({"device_name": "cpu", "cpu": "EPYC 9654"}, True),
        # Another processor may have to emulate the precision that was chosen for the first.
        ({"device_name": "cpu", "cpu": "Xeon E5"}, False),
        ({"device_name": "cpu"}, True),
        ({"device_name": "MI300X", "cpu": "EPYC 9654"}, False),
        ({}, False),
    ],
)
def test_processors_are_distinguished_by_name(made_on, is_same):
    assert is_same_device(made_on, here={"device_name": "cpu", "cpu": "EPYC 9654"}) is is_same


def test_a_gpu_is_the_same_in_another_computer():
    here = {"device_name": "MI300X", "cpu": "EPYC 9654"}
    assert is_same_device({"device_name": "MI300X", "cpu": "Xeon E5"}, here=here)
