import pytest

from redkiln.spec.class_weights import compute_class_weights, find_weight_problems
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec

CLASSES = ["cat", "dog", "emu"]


@pytest.mark.parametrize(
    ("weights", "counts", "expected"),
    [
        ("balanced", [10, 30, 60], [100 / 30, 100 / 90, 100 / 180]),
        ("balanced", [10, 10, 10], [1, 1, 1]),
        ("balanced", [10, 10, 0], [1, 1, 0]),
        ({"cat": 2.0}, [10, 10, 10], [1.5, 0.75, 0.75]),
        ([1, 2, 3], [1, 1, 1], [0.5, 1, 1.5]),
    ],
)
def test_weights_have_a_mean_of_one_over_the_training_samples(weights, counts, expected):
    found = compute_class_weights(weights, classes=CLASSES, counts=counts)
    assert found == pytest.approx(expected)
    mean = sum(w * n for w, n in zip(found, counts, strict=True)) / sum(counts)
    assert mean == pytest.approx(1)


def test_no_weights_stay_none():
    assert compute_class_weights(None, classes=CLASSES, counts=[1, 2, 3]) is None


@pytest.mark.parametrize(
    ("weights", "pointer", "words"),
    [
        ({"dgo": 2.0}, "/training/class_weights/dgo", "did you mean 'dog'?"),
        ({"a/b": 2.0}, "/training/class_weights/a~1b", "known: cat, dog, emu"),
        (
            [1.0, 2.0],
            "/training/class_weights",
            "there are 2 weights but 3 classes (cat, dog, emu)",
        ),
        ([0, 0, 0], "/training/class_weights", "a positive weight"),
        ({"cat": 0, "dog": 0, "emu": 0}, "/training/class_weights", "a positive weight"),
    ],
)
def test_weights_that_do_not_fit_the_classes_are_reported_with_their_place(weights, pointer, words):
    ((found, message),) = find_weight_problems(weights, CLASSES)
    assert found == pointer
    assert words in message


@pytest.mark.parametrize("weights", [None, "balanced", {"cat": 1.5}, [1, 2, 0.5]])
def test_weights_that_fit_have_no_problems(weights):
    assert find_weight_problems(weights, CLASSES) == []
    spec = parse_spec(
        {"dataset": "zoo", "training": {"class_weights": weights}},
        default_task="image-classification",
    )
    assert spec.training.class_weights == weights


@pytest.mark.parametrize("weights", ["balance", {"cat": -1.0}, [float("nan")], 3])
def test_invalid_weights_are_refused(weights):
    with pytest.raises(SpecError) as caught:
        parse_spec(
            {"dataset": "zoo", "training": {"class_weights": weights}},
            default_task="image-classification",
        )
    assert {p.pointer for p in caught.value.problems} == {"/training/class_weights"}
