import pytest

from service.attempts.checkpoints import choose_kept


@pytest.mark.parametrize(
    ("checkpoints", "kept"),
    [
        ([], set()),
        ([(10, False)], {10}),
        ([(10, False), (20, False), (30, False)], {20, 30}),
        ([(10, True), (20, False), (30, False), (40, False)], {10, 30, 40}),
        ([(10, False), (20, True), (30, False)], {20, 30}),
    ],
)
def test_the_best_and_the_last_two_checkpoints_are_kept(checkpoints, kept):
    assert choose_kept(checkpoints) == kept


def test_a_spec_may_ask_for_more_of_the_newest_to_be_kept():
    checkpoints = [(10, True), (20, False), (30, False), (40, False), (50, False)]
    assert choose_kept(checkpoints, newest=3) == {10, 30, 40, 50}
    assert choose_kept(checkpoints, newest=1) == {10, 50}
