import itertools

import pytest

from redkiln.tasks import parse_spec
from worker.trainer.insight.pace import Pace, find_slow_loader, reads_images


def pace(*, making=0.0, waiting=0.0):
    found = Pace()
    found.making_seconds, found.waiting_seconds = making, waiting
    return found


def test_both_parts_of_the_hosts_time_are_summed():
    ticks = itertools.count()
    found = Pace(clock=lambda: float(next(ticks)))
    for _ in range(3):
        with found.making():
            next(ticks)
    with found.waiting():
        pass
    assert (found.making_seconds, found.waiting_seconds) == (6.0, 1.0)


@pytest.mark.parametrize(
    ("making", "waiting", "steps", "words"),
    [
        (
            4.3,
            0.0,
            100,
            "loader-bound: preparing batches takes 43% of a step (43.0 of 100.0 ms); what helps: ",
        ),
        (4.3, 0.4, 100, "loader-bound: "),
        (4.3, 0.6, 100, None),  # the device is what is waited for
        (1.9, 0.0, 100, None),
        (4.3, 0.0, 19, None),
        (0.0, 0.0, 0, None),
    ],
)
def test_training_with_slow_batches_is_reported_as_loader_bound(making, waiting, steps, words):
    found = find_slow_loader(pace(making=making, waiting=waiting), steps=steps, seconds=10.0)
    assert found is None if words is None else found.startswith(words)


def test_only_images_can_be_made_smaller():
    slow = pace(making=4.3)
    assert "model.options.image_size" in find_slow_loader(slow, steps=100, seconds=10.0)
    other = find_slow_loader(slow, steps=100, seconds=10.0, has_images=False)
    assert "image" not in other
    assert "REDKILN_THREADS" in other


@pytest.mark.parametrize(
    ("task", "is_image"),
    [
        ("image-classification", True),
        ("text-classification", False),
        ("tabular-classification", False),
        ("tabular-regression", False),
    ],
)
def test_which_tasks_read_images(task, is_image):
    assert reads_images(parse_spec({"task": task, "dataset": "d"})) is is_image
