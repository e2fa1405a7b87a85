import pytest

from redkiln.spec.job_spec import EarlyStopping, Training
from worker.checkpoints.history import History
from worker.trainer.loop.patience import Patience


def judged(values, *, least_epochs=0, **rule):
    """After which epoch it is over, and why."""
    settings = {"metric": "val/loss", "patience": 2, **rule}
    training = Training(early_stopping=EarlyStopping(**settings))
    patience = Patience(training, least_epochs=least_epochs)
    history = History()
    for epoch, value in enumerate(values, start=1):
        history.add(settings["metric"], epoch * 10, value)
        if patience.is_over(history):
            return epoch, patience.explain(history, epochs=9)
    return None, ""


@pytest.mark.parametrize(
    ("values", "rule", "epoch"),
    [
        ([3.0, 2.0, 1.0, 0.5], {}, None),
        ([3.0, 2.0, 2.5, 2.0], {}, 4),
        ([3.0, 2.0, 2.5, 1.9, 2.0, 2.0], {}, 6),
        ([3.0, 2.0, 1.95, 1.92], {"min_delta": 0.1}, 4),
        ([3.0, 3.0], {"patience": 1}, 2),
        ([0.5, 0.6, 0.6, 0.6], {"metric": "val/accuracy"}, 4),
        ([0.9, 0.8, 0.7], {"metric": "val/accuracy"}, 3),
        ([], {}, None),
    ],
)
def test_training_ends_after_epochs_without_an_improvement(values, rule, epoch):
    assert judged(values, **rule)[0] == epoch


@pytest.mark.parametrize(("least", "epoch"), [(0, 3), (1, 3), (2, 4), (3, 6), (9, None)])
def test_epochs_before_the_first_that_counts_do_not_end_training(least, epoch):
    values = [1.0, 2.0, 3.0, 2.5, 2.6, 2.7, 2.8]
    found, why = judged(values, least_epochs=least)
    assert found == epoch
    if least == 3:
        assert why.endswith("not improved since epoch 4 (2.5)")


def test_the_message_names_the_best_epoch():
    _, why = judged([3.0, 2.0, 2.5, 2.25])
    assert why == "stopped early after epoch 4 of 9: val/loss has not improved since epoch 2 (2)"


def test_without_a_rule_training_never_stops_early():
    history = History()
    for epoch in range(50):
        history.add("val/loss", epoch, 1.0)
    assert not Patience(Training()).is_over(history)
