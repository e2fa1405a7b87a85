from service.datasets.fair_queue import FairQueue, Waiting


def fill(queue, *, is_large=False, **projects):
    for project, names in projects.items():
        for name in names.split():
            queue.put(Waiting(name, project, is_large))


def take(queue):
    return queue.take().dataset_id


def test_projects_take_turns_and_each_keeps_its_order():
    queue = FairQueue(10)
    fill(queue, cats="a b c", dogs="d", owls="e f")
    assert [take(queue) for _ in range(6)] == ["a", "d", "e", "b", "f", "c"]


def test_one_project_never_has_all_threads():
    queue = FairQueue(3)
    fill(queue, cats="a b c")
    first = queue.take()
    assert (first.dataset_id, take(queue)) == ("a", "b")
    assert queue._find() is None
    fill(queue, dogs="d")
    assert take(queue) == "d"
    queue.done(first)
    assert take(queue) == "c"


def test_large_data_sets_of_a_project_do_not_keep_its_small_ones_waiting():
    queue = FairQueue(4)
    fill(queue, cats="a b c", is_large=True)
    large = [queue.take(), queue.take()]
    assert queue._find() is None
    fill(queue, cats="d e")
    assert take(queue) == "d"
    assert queue._find() is None, "the last thread is for other projects"
    fill(queue, dogs="f", is_large=True)
    assert take(queue) == "f"
    queue.done(large[0])
    assert [take(queue)] == ["c"], "each keeps its place"


def test_small_data_sets_that_take_long_give_way_to_the_next_small_one():
    queue = FairQueue(4)
    fill(queue, cats="a b c")
    slow = [queue.take() for _ in range(3)]
    assert [queue.may_continue(item) for item in slow] == [True, True, True], "nothing waits"
    assert [item.is_large for item in slow] == [True, True, False]
    fill(queue, cats="d", is_large=True)
    assert queue.may_continue(slow[2]), "no small one waits"
    fill(queue, cats="e")
    assert [queue.may_continue(item) for item in slow] == [True, True, False]
    queue.done(slow[2])
    queue.put(Waiting("c", "cats", is_large=True))
    assert take(queue) == "e"
    assert queue._find() is None
    queue.done(slow[0])
    assert [take(queue)] == ["d"], "the large ones keep their order"


def test_a_single_thread_serves_everybody():
    queue = FairQueue(1)
    fill(queue, cats="a", is_large=True)
    assert take(queue) == "a"


def test_a_closed_queue_lets_its_takers_go():
    queue = FairQueue(2)
    fill(queue, cats="a")
    queue.close()
    assert queue.take() is None
