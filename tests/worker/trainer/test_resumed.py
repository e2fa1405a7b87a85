from worker.trainer.resumed import follow_checkpoint

ASKED = {
    "dataset": "d",
    "training": {"epochs": 3, "batch_size": "auto", "precision": "auto"},
}
RESOLVED = {
    "dataset": "d",
    "model": {"name": "amdnet"},
    "training": {"epochs": 3, "batch_size": 64, "precision": "bf16", "accumulation": 4},
}


def test_on_the_same_device_everything_stays_as_it_was_resolved():
    assert follow_checkpoint(ASKED, RESOLVED, is_same_device=True) == RESOLVED


def test_on_another_device_what_was_chosen_for_the_first_is_chosen_anew():
    followed = follow_checkpoint(ASKED, RESOLVED, is_same_device=False)
    assert followed["training"] == {
        "epochs": 3,
        "batch_size": 64,
        "precision": "auto",
        "accumulation": 4,
    }
    assert followed["model"] == {"name": "amdnet"}
