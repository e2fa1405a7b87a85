import json

import pytest


def test_a_refused_cancel_says_why(redkiln):
    done = redkiln("cancel", "last")
    assert done.code == 2
    assert "a job that is succeeded stays so" in done.err


def test_a_running_job_can_be_cancelled(redkiln, fake):
    fake.status = "running"
    done = redkiln("cancel", "last")
    assert done.code == 0
    assert "is cancelled" in done.out
    assert "redkiln finish" in done.err


def test_pausing_a_job_says_how_to_resume_it(redkiln, fake):
    done = redkiln("pause", "last")
    assert done.code == 0
    assert "is paused" in done.out
    assert "redkiln resume" in done.err
    assert fake.steered == [("pause", {})]


def test_a_resumed_job_is_queued_again(redkiln, fake):
    done = redkiln("resume", "last")
    assert "is queued" in done.out
    assert fake.steered == [("resume", {})]


@pytest.mark.parametrize(
    ("options", "start"),
    [((), "newest"), (("--from", "best"), "best"), (("--from", "60"), 60)],
)
def test_a_retry_starts_at_the_given_place(redkiln, fake, options, start):
    assert redkiln("retry", "last", *options).code == 0
    assert fake.steered == [("retry", {"from": start})]


def test_an_invalid_place_is_refused_before_any_request(redkiln, fake):
    done = redkiln("retry", "last", "--from", "-3")
    assert done.code == 2
    assert "newest, best, start" in done.err
    assert fake.steered == []


def test_checkpoints_are_listed_with_their_metrics(redkiln):
    done = redkiln("checkpoints", "last")
    assert "val/loss 0.25" in done.out
    assert done.out.index("90") < done.out.index("60")


def test_checkpoints_as_json(redkiln):
    listed = json.loads(redkiln("checkpoints", "last", "--json").out)
    assert [item["step"] for item in listed] == [90, 60]


def test_several_jobs_are_steered_at_once(redkiln, fake):
    fake.job_names["job_1123456789abcdefghijkl"] = "trees"
    done = redkiln("pause", "flowers", "trees")
    assert done.code == 0
    assert fake.steered == [("pause", {}), ("pause", {})]
    assert len(redkiln("pause", "flowers", "trees", "--json").json) == 2


def test_nothing_is_steered_if_one_of_the_jobs_is_unknown(redkiln, fake):
    assert redkiln("pause", "flowers", "threes").code == 2
    assert fake.steered == []


def test_a_job_can_be_finished_now(redkiln, fake):
    done = redkiln("finish", "last")
    assert done.code == 0
    assert fake.steered == [("finish", {})]
    assert "is finishing" in done.out
    assert "redkiln watch" in done.err


def test_a_waiting_job_can_be_moved_in_the_queue(redkiln):
    done = redkiln("priority", "last", "--", "-5")
    assert "has priority -5, position 2" in done.out
    assert redkiln("priority", "last", "7", "--json").json["priority"] == 7
    assert redkiln("priority", "last", "101").code == 2


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_job_is_moved_next_to_another(redkiln, fake, side):
    done = redkiln("move", "last", f"--{side}", "last")
    assert done.code == 0
    assert "has priority 3, position 1" in done.out
    ((verb, place),) = fake.steered
    assert (verb, list(place)) == ("move", [side])


@pytest.mark.parametrize("options", [(), ("--before", "last", "--after", "last")])
def test_a_move_needs_one_other_job(redkiln, fake, options):
    done = redkiln("move", "last", *options)
    assert done.code == 2
    assert "either --before JOB or --after JOB" in done.err
    assert fake.steered == []
