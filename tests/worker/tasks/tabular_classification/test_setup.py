import pytest

from worker.tasks.tabular_classification.setup import is_better


@pytest.mark.parametrize(
    ("f1", "loss", "plain", "weighted"),
    [(0.9, 0.5, True, True), (0.9, 0.7, False, True), (0.7, 0.5, True, False)],
)
def test_the_best_epoch_has_the_smallest_loss_or_with_weights_the_highest_f1(
    f1, loss, plain, weighted
):
    best = {"val/macro_f1": 0.8, "val/loss": 0.6}
    metrics = {"val/macro_f1": f1, "val/loss": loss}
    assert is_better(metrics, best, by_f1=False) is plain
    assert is_better(metrics, best, by_f1=True) is weighted
