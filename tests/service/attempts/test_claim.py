"""What a worker gets when it claims a job."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from redkiln.protocol import ClaimRequest
from service.attempts.choose import choose
from service.jobs.models import JOB


def test_a_claim_contains_everything_an_attempt_needs(submit, worker, job):
    job_id = submit(resources={"max_duration_seconds": 60})["id"]
    claimed = worker.claim().claimed
    assert claimed["job_id"] == job_id
    assert (claimed["number"], claimed["fence"]) == (1, 1)
    assert claimed["dataset"]["name"] == "builtin:digits"
    assert claimed["max_duration_seconds"] == 60
    assert claimed["lease_seconds"] == 90
    view = job(job_id)
    assert view["status"] == "running"
    assert view["started_at"] is not None
    assert view["attempts"][0]["worker_id"] == worker.id


def test_a_job_without_a_data_set_is_claimed_without_one(client, worker):
    worker.hello()
    job_id = client.post("/v1/jobs", json={"task": "benchmark"}).json()["id"]
    attempt = worker.claim()
    assert (attempt.job_id, attempt.claimed["dataset"]) == (job_id, None)
    assert attempt.claimed["spec"]["measure"]["seconds"] == 180
    for path in ("dataset", "dataset/index"):
        url = f"/v1/attempts/{attempt.id}/{path}"
        assert client.get(url, headers=attempt.headers).status_code == 404


def test_a_claim_gets_the_best_job_not_the_one_in_the_message(submit, worker):
    first = submit()["id"]
    urgent = submit(priority=1)["id"]
    assert worker.claim(hint=first).job_id == urgent
    assert worker.claim().job_id == first
    assert worker.ask().status_code == 204


def test_the_same_message_twice_starts_one_attempt(submit, worker, other_worker, job):
    job_id = submit()["id"]
    worker.claim(hint=job_id)
    assert other_worker.ask(hint=job_id).status_code == 204
    assert len(job(job_id)["attempts"]) == 1


def test_a_repeated_claim_gets_the_same_attempt(submit, worker):
    submit()
    submit()
    first = worker.claim(claim_id="c1").claimed
    assert worker.claim(claim_id="c1").claimed == first
    assert worker.claim(claim_id="c2").claimed["attempt_id"] != first["attempt_id"]


def test_an_older_process_of_a_worker_gets_nothing(submit, worker):
    submit()
    worker.hello(boot_id="boot-2")
    response = worker.ask()
    assert (response.status_code, response.json()["code"]) == (409, "superseded")


def test_an_unknown_worker_must_send_hello(submit, worker):
    submit()
    worker.id = "wrk_99999999"
    assert worker.ask().json()["code"] == "superseded"


def test_a_worker_of_another_release_finishes_its_attempts_and_gets_no_more(
    submit, worker, other_worker, job
):
    begun, queued = submit()["id"], submit()["id"]
    attempt = worker.claim()
    worker.hello(version="0.0.1")
    assert worker.ask().status_code == 204
    assert attempt.report().status_code == 200
    assert job(begun)["status"] == "running"
    assert other_worker.claim().job_id == queued


def test_a_cpu_gets_a_job_for_any_device_only_if_no_worker_has_a_gpu(submit, worker, other_worker):
    submit()
    other_worker.gpus = [{"index": 0, "name": "RX 7900", "arch": "gfx1100"}]
    other_worker.hello()
    assert worker.ask().status_code == 204
    assert other_worker.claim()


def test_a_job_for_another_architecture_is_passed_over(submit, worker, other_worker):
    for each, arch in ((worker, "gfx1100"), (other_worker, "gfx942")):
        each.gpus = [{"index": 0, "name": "card", "arch": arch}]
        each.hello()
    picky = submit(resources={"arch": ["gfx942"]}, priority=9)["id"]
    other = submit()["id"]
    assert worker.claim().job_id == other
    assert other_worker.claim().job_id == picky


def test_simultaneous_claims_get_different_jobs(client, submit, worker_key, worker):
    jobs = {submit()["id"] for _ in range(12)}
    workers = [type(worker)(client, worker_key, id=f"wrk_1000000{n}") for n in range(4)]

    def claim_three(worker):
        worker.hello()
        return [worker.claim().job_id for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        claimed = [job_id for ids in pool.map(claim_three, workers) for job_id in ids]
    assert sorted(claimed) == sorted(jobs)


def test_a_cancel_racing_a_finish_has_one_winner(client, submit, worker, job, kinds):
    for _ in range(5):
        job_id = submit()["id"]
        attempt = worker.claim()
        attempt.upload(b"{}")
        with ThreadPoolExecutor(2) as pool:
            cancelled = pool.submit(client.post, f"/v1/jobs/{job_id}/cancel")
            finished = pool.submit(attempt.succeed)
        status = finished.result().json()["job_status"]
        assert job(job_id)["status"] == status
        assert (cancelled.result().status_code == 409) is (status == "succeeded")
        assert kinds(job_id)[-1] == status


def test_after_a_fault_of_a_worker_another_one_gets_the_job_at_once(
    submit, worker, other_worker, job, monkeypatch
):
    job_id = submit()["id"]
    worker.claim().fail("worker_fault")
    assert job(job_id)["status"] == "queued"
    assert worker.ask().status_code == 204
    other_worker.claim().fail("worker_fault")
    assert other_worker.ask().status_code == 204
    monkeypatch.setattr("service.attempts.choose.FAULT_REST_SECONDS", 0.0)
    assert other_worker.claim().job_id == job_id


def test_a_job_that_waits_does_not_delay_the_next_one(submit, worker):
    submit(priority=1)
    worker.claim().fail("worker_fault")
    later = submit()["id"]
    assert worker.claim().job_id == later


def test_a_claim_whose_choice_was_taken_meanwhile_searches_again(
    submit, worker, other_worker, monkeypatch
):
    monkeypatch.setattr("service.attempts.choose.MOST_CHOSEN", 1)
    first, second = submit()["id"], submit()["id"]
    taken = []

    def choose_late(*arguments):
        chosen = choose(*arguments)
        if not taken:
            taken.append(None)
            taken[0] = other_worker.claim().job_id
        return chosen

    monkeypatch.setattr("service.attempts.claim.choose", choose_late)
    assert worker.claim().job_id == second
    assert taken == [first]


@pytest.mark.parametrize("most_needs", [1, 100])
def test_a_claim_reads_on_behind_jobs_that_do_not_fit(
    submit, worker, other_worker, monkeypatch, most_needs
):
    monkeypatch.setattr("service.attempts.choose.FIRST_PAGE", 2)
    monkeypatch.setattr("service.attempts.choose.LATER_PAGES", 2)
    monkeypatch.setattr("service.attempts.choose.MOST_NEEDS", most_needs)
    for each, arch in ((worker, "gfx1100"), (other_worker, "gfx942")):
        each.gpus = [{"index": 0, "name": "card", "arch": arch}]
        each.hello()
    for _ in range(5):
        submit(resources={"arch": ["gfx942"]})
    last = submit(resources={"arch": ["gfx1100"]})["id"]
    assert worker.claim().job_id == last


def test_jobs_for_other_gpus_behind_the_first_page_are_not_even_read(
    services, submit, worker, other_worker, monkeypatch
):
    monkeypatch.setattr("service.attempts.choose.FIRST_PAGE", 1)
    for each, arch in ((worker, "gfx1100"), (other_worker, "gfx942")):
        each.gpus = [{"index": 0, "name": "card", "arch": arch}]
        each.hello()
    for _ in range(3):
        submit(resources={"arch": ["gfx942"]})
    submit(resources={"arch": ["gfx1100"]})
    judged = []
    monkeypatch.setattr(
        "service.attempts.choose.has_packages", lambda *_: judged.append(None) or True
    )
    assert worker.claim() is not None
    assert len(judged) == 2, "the first page, and the job that fits"


def test_no_spec_is_read_to_choose_a_job(services, submit, worker):
    """A row with its specs has kilobytes: thousands of queued jobs would be slow to read."""
    submit()
    read = []

    def see(_connection, _cursor, statement, *_):
        read.append(statement)

    request = ClaimRequest(
        claim_id="c", worker_id=worker.id, boot_id=worker.boot_id, devices=["cpu"]
    )
    engine = services.database._reader
    sa.event.listen(engine, "before_cursor_execute", see)
    chosen = services.database.read(lambda s: choose(s, services.settings, request))
    sa.event.remove(engine, "before_cursor_execute", see)
    assert len(chosen.job_ids) == 1
    (statement,) = (text for text in read if "FROM job " in text)
    assert "spec" not in statement


def test_a_worker_whose_engine_is_busy_gets_the_jobs_behind(submit, worker):
    worker.hello(packages=["tinygrad"])
    waiting = submit(resources={"engine": "tinygrad"})["id"]
    behind = submit()["id"]
    assert worker.claim(busy=["tinygrad"]).job_id == behind
    assert worker.ask(busy=["tinygrad"]).status_code == 204
    assert worker.claim().job_id == waiting


def test_a_job_that_an_earlier_release_queued_meanwhile_is_claimed(services, submit, worker):
    job_id = submit()["id"]
    services.database.write(lambda s: s.execute(sa.update(JOB).values(needs="")))
    assert worker.claim().job_id == job_id
