import pytest
import torch
from torch.nn import functional

from redkiln.failure import FailureCode
from redkiln.spec.class_weights import ClassifierTraining
from worker.process.failed import TrainingFailed
from worker.trainer.optim.losses import build_classifier_loss, count_classes

CLASSES = ["cat", "dog"]
CPU = torch.device("cpu")


def build(**training):
    return build_classifier_loss(
        ClassifierTraining(**training), classes=CLASSES, counts=[30, 10], device=CPU
    )


def batch(num=8):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(num, 2, generator=generator), torch.arange(num) % 2


def test_without_weights_it_is_the_mean_cross_entropy():
    logits, labels = batch()
    expected = functional.cross_entropy(logits, labels, label_smoothing=0.1)
    assert torch.equal(build(label_smoothing=0.1)(logits, labels), expected)


def test_a_rare_class_counts_as_much_as_a_frequent_one():
    logits, labels = batch()
    each = functional.cross_entropy(logits, labels, reduction="none")
    weights = torch.tensor([40 / 60, 40 / 20])
    expected = (each * weights[labels]).mean()
    torch.testing.assert_close(build(class_weights="balanced")(logits, labels), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_parts_of_a_split_batch_add_up_to_the_whole(smoothing):
    logits, labels = batch()
    loss = build(class_weights={"dog": 5.0}, label_smoothing=smoothing)
    parts = [loss(logits[s], labels[s]) * 0.5 for s in (slice(0, 4), slice(4, 8))]
    torch.testing.assert_close(sum(parts), loss(logits, labels))


def test_an_unknown_class_is_reported_with_the_nearest_name():
    with pytest.raises(TrainingFailed, match="did you mean 'dog'") as caught:
        build(class_weights={"dgo": 2.0})
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    assert caught.value.failure.details["pointer"] == "/training/class_weights/dgo"


def test_classes_without_samples_are_counted_too():
    assert count_classes(torch.tensor([0, 2, 2]), num_classes=4) == [1, 0, 2, 0]
