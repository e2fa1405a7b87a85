import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec


def parsed(**fields):
    return parse_spec({"dataset": "houses", **fields}, default_task="tabular-classification")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("45s", 45),
        ("90 min", 5400),
        ("2h", 7200),
        ("1.5 hours", 5400),
        ("1h30m", 5400),
        ("1 day", 86_400),
        (60, 60),
    ],
)
def test_a_duration_can_be_written_with_its_unit(text, seconds):
    assert (
        parsed(resources={"max_duration_seconds": text}).resources.max_duration_seconds == seconds
    )
    assert parsed(training={"checkpoint_seconds": text}).training.checkpoint_seconds == seconds


@pytest.mark.parametrize("text", ["", "h", "2", "2x", "2 h 3", "two hours"])
def test_a_text_that_is_not_a_duration_is_refused_with_examples(text):
    with pytest.raises(SpecError) as refused:
        parsed(resources={"max_duration_seconds": text})
    (problem,) = refused.value.problems
    assert problem.pointer == "/resources/max_duration_seconds"
    assert "write seconds, or a time with its unit: 90s" in problem.message


def test_one_architecture_needs_no_list():
    assert parsed(resources={"arch": "gfx1100"}).resources.arch == ["gfx1100"]


@pytest.mark.parametrize(("written", "patience"), [(7, 7), (True, 5), ({"patience": 3}, 3)])
def test_early_stopping_can_be_written_as_its_patience(written, patience):
    assert parsed(training={"early_stopping": written}).training.early_stopping.patience == patience


def test_early_stopping_can_be_switched_off():
    assert parsed(training={"early_stopping": False}).training.early_stopping is None
