from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch.nn import functional

from worker.trainer.scoring.evaluate import ScoringBatch, evaluate_classifier, evaluate_regressor


class Sum(torch.nn.Module):
    """Adds its two inputs; says whether it was asked in training mode."""

    was_training = False

    def forward(self, left, right):
        self.was_training |= self.training
        return left + right


def never():
    return False


def halves(*tensors, at=7):
    return [tuple(t[:at] for t in tensors), tuple(t[at:] for t in tensors)]


def test_a_classifier_of_two_inputs_is_scored_over_all_batches():
    torch.manual_seed(0)
    left, right = torch.randn(20, 4), torch.randn(20, 4)
    labels = torch.randint(0, 3, (20,))  # class 3 is never there
    model = Sum().train()
    found = evaluate_classifier(
        model,
        [((a, b), y) for a, b, y in halves(left, right, labels)],
        autocast=nullcontext,
        should_stop=never,
    )
    logits = left + right
    predicted = logits.argmax(dim=1)
    assert found["loss"] == pytest.approx(float(functional.cross_entropy(logits, labels)))
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(labels, predicted, average="macro"))
    assert model.training
    assert not model.was_training


def test_a_regressor_is_scored_in_the_targets_own_unit():
    torch.manual_seed(0)
    outputs, targets = torch.randn(20), torch.randn(20)
    found = evaluate_regressor(
        torch.nn.Identity(),
        halves(outputs, targets),
        loss=functional.mse_loss,
        restore=lambda values: 10 * values + 7,
        autocast=nullcontext,
        should_stop=never,
    )
    wanted, given = 10 * targets.numpy() + 7, 10 * outputs.numpy() + 7
    assert found == {
        "loss": pytest.approx(metrics.mean_squared_error(wanted, given) / 100),
        "rmse": pytest.approx(np.sqrt(metrics.mean_squared_error(wanted, given))),
        "mae": pytest.approx(metrics.mean_absolute_error(wanted, given)),
        "r2": pytest.approx(metrics.r2_score(wanted, given)),
    }


def test_equal_targets_leave_nothing_to_explain():
    targets = torch.full((7,), 0.1)
    found = evaluate_regressor(
        torch.nn.Identity(),
        [(targets + 0.1, targets)],
        loss=functional.mse_loss,
        restore=lambda values: values,
        autocast=nullcontext,
        should_stop=never,
    )
    assert found["r2"] == 0.0


def test_a_stopped_evaluation_returns_none_and_restores_training_mode():
    model = torch.nn.Linear(2, 2).train()
    batch = (torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    stops = iter([False, True])
    options = {"autocast": nullcontext, "should_stop": lambda: next(stops)}
    assert evaluate_classifier(model, [batch, batch], **options) is None
    assert model.training


def test_batches_that_do_not_fit_are_halved_from_then_on():
    tried = []

    def score(size):
        tried.append(size)
        if size > 5:
            raise torch.OutOfMemoryError("HIP out of memory")
        return {"loss": 0.5}

    batch = ScoringBatch(32)
    assert batch.score(score) == {"loss": 0.5}
    assert batch.score(score) == {"loss": 0.5}
    assert tried == [32, 16, 8, 4, 4]


def test_a_single_sample_that_cannot_be_scored_is_an_error():
    def score(_size):
        raise torch.OutOfMemoryError("HIP out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        ScoringBatch(4).score(score)
