import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.errors import Unavailable
from service.turns import Turns
from tests.waiting import wait_for


def test_a_few_work_a_few_wait_and_the_others_are_refused():
    turns, go, working = Turns("things are done", at_once=2, waiting=3), threading.Event(), []

    def work(number):
        with turns.take():
            working.append(number)
            go.wait(60)

    with ThreadPoolExecutor(5) as pool:
        held = [pool.submit(work, number) for number in range(5)]
        wait_for(lambda: turns._places._value == 0 and len(working) == 2)
        with pytest.raises(Unavailable, match="too many things are done; try again") as refused:
            work(5)
        assert refused.value.headers == {"Retry-After": "10"}
        go.set()
        for one in held:
            one.result()
    assert sorted(working) == [0, 1, 2, 3, 4]
    work(6)  # the places are free again


def test_a_turn_ends_with_an_error():
    turns = Turns("things are done", at_once=1, waiting=0)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"), turns.take():
            raise ValueError("broken")
