from service.datasets.fair_queue import FairQueue


def fill(queue, **projects):
    for project, names in projects.items():
        for name in names.split():
            queue.put(name, project=project)


def test_projects_take_turns_and_each_keeps_its_order():
    queue = FairQueue(10)
    fill(queue, cats="a b c", dogs="d", owls="e f")
    taken = [queue.take() for _ in range(6)]
    assert [name for name, _ in taken] == ["a", "d", "e", "b", "f", "c"]


def test_one_project_never_has_all_threads():
    queue = FairQueue(3)
    fill(queue, cats="a b c")
    assert [queue.take()[0] for _ in range(2)] == ["a", "b"]
    assert queue._find() is None
    fill(queue, dogs="d")
    assert queue.take() == ("d", "dogs")
    queue.done("cats")
    assert queue.take() == ("c", "cats")


def test_a_single_thread_serves_everybody():
    queue = FairQueue(1)
    fill(queue, cats="a")
    assert queue.take() == ("a", "cats")


def test_a_closed_queue_lets_its_takers_go():
    queue = FairQueue(2)
    fill(queue, cats="a")
    queue.close()
    assert queue.take() is None
