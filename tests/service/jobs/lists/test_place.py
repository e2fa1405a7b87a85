import pytest
import sqlalchemy as sa

from service.ids import created_us, new_id
from service.jobs.models import JOB

MISSING = "job_" + "0" * 22


@pytest.fixture
def queue(client):
    def queue():
        jobs = client.get("/v1/jobs?sort=queue").json()["data"]
        assert [job["queue_position"] for job in jobs] == list(range(1, len(jobs) + 1))
        return "".join(job["name"] for job in jobs)

    return queue


@pytest.fixture
def made(submit):
    return {name: submit(name=name)["id"] for name in "abcd"}


@pytest.fixture
def move(client):
    def move(job_id, **where):
        return client.post(f"/v1/jobs/{job_id}/move", json=where)

    return move


@pytest.mark.parametrize(
    ("moved", "where", "expected"),
    [
        ("d", {"before": "a"}, "dabc"),
        ("d", {"before": "b"}, "adbc"),
        ("a", {"after": "c"}, "bcad"),
        ("a", {"after": "d"}, "bcda"),
        ("b", {"after": "a"}, "abcd"),
        ("c", {"before": "d"}, "abcd"),
    ],
)
def test_a_job_is_moved_next_to_another(queue, made, move, moved, where, expected):
    (side, other), *_ = where.items()
    assert move(made[moved], **{side: made[other]}).status_code == 200
    assert queue() == expected


def test_claims_follow_the_order(made, move, worker):
    move(made["c"], before=made["a"])
    assert [worker.claim().job_id for _ in range(2)] == [made["c"], made["a"]]


def test_positions_of_single_jobs_follow_the_order(made, move, job):
    assert move(made["d"], before=made["b"]).json()["queue_position"] == 2
    assert {name: job(id_)["queue_position"] for name, id_ in made.items()} == {
        "a": 1, "d": 2, "b": 3, "c": 4,
    }  # fmt: skip


def test_a_moved_job_gets_the_priority_of_the_other(submit, made, move, queue):
    urgent = submit(name="u", priority=9)["id"]
    assert move(made["b"], after=urgent).json()["priority"] == 9
    assert queue() == "ubacd"
    assert move(urgent, after=made["a"]).json()["priority"] == 0
    assert queue() == "bau" + "cd"


def test_jobs_can_be_moved_into_the_same_gap_again_and_again(made, move, queue):
    for number in range(80):
        moved, other = ("c", "b") if number % 2 else ("b", "c")
        assert move(made[moved], before=made[other]).status_code == 200
    assert queue() == "acbd"


def test_jobs_without_room_between_them_are_spread_out(services, made, move, queue):
    services.database.write(lambda s: s.execute(sa.update(JOB).values(place=7)))
    assert queue() == "abcd"
    move(made["d"], before=made["b"])
    assert queue() == "adbc"


def test_later_jobs_are_behind_moved_ones(made, move, submit, queue):
    move(made["a"], after=made["d"])
    submit(name="e")
    assert queue() == "bcdae"


def test_a_move_is_recorded_once(made, move, kinds, client):
    for _ in range(2):
        move(made["d"], before=made["b"])
    assert kinds(made["d"]) == ["submitted", "moved"]
    event = client.get(f"/v1/jobs/{made['d']}/events").json()["data"][-1]
    assert event["data"] == {"before": made["b"], "priority": 0}


def test_only_queued_jobs_are_moved(client, made, move, worker):
    worker.claim()
    for response in (move(made["a"], after=made["b"]), move(made["b"], after=made["a"])):
        assert (response.status_code, response.json()["code"]) == (409, "job_running")
    assert move(made["b"], after=MISSING).status_code == 404
    assert move(made["b"], after=made["b"]).status_code == 422


@pytest.mark.parametrize("both", [True, False])
def test_a_move_names_one_other_job(made, move, both):
    where = {"before": made["b"], "after": made["c"]} if both else {}
    response = move(made["a"], **where)
    assert response.status_code == 422
    assert "either `before` or `after`" in response.json()["detail"]


def test_patch_changes_the_priority(client, made, queue):
    response = client.patch(f"/v1/jobs/{made['d']}", json={"priority": 3})
    assert (response.status_code, response.json()["queue_position"]) == (200, 1)
    assert queue() == "dabc"
    assert client.patch(f"/v1/jobs/{made['d']}", json={"priority": 101}).status_code == 422


def test_the_time_of_creation_is_read_from_an_id():
    first, second = (created_us(new_id("job")) for _ in range(2))
    assert 1.7e15 < first < second
    with pytest.raises(ValueError, match="is not an id"):
        created_us("job_1")
