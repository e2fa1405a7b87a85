"""The broker breaks connections, keeps stale messages, and misses one after a crash."""

import json
import signal

import pytest
import redis

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults")]

QUEUE = "redkiln"


@pytest.fixture
def broker(faulty):
    path = str(faulty.stack.redis_socket_path)
    client = redis.Redis(unix_socket_path=path, password=faulty.stack.redis_password)
    yield client
    client.close()


def test_a_worker_that_loses_its_broker_three_times_still_listens(faulty, broker):
    for _ in range(3):
        faulty.wait_for(lambda: broker.client_kill_filter(_type="normal", skipme=True))
    # Only a listener takes a message out of the queue.
    broker.lpush(QUEUE, message_about("job_none"))
    faulty.wait_for(lambda: not broker.llen(QUEUE))
    faulty.succeed_whole(faulty.submit(epochs=1), steps=10)


def test_a_message_about_a_job_that_has_ended_or_is_deleted_does_nothing(faulty, broker):
    ended, deleted = faulty.submit(epochs=1), faulty.submit(epochs=1)
    for job_id in (ended, deleted):
        faulty.wait_for_success(job_id)
    faulty.client.delete(deleted)
    before = faulty.client.job(ended)
    for job_id in (ended, deleted):
        broker.lpush(QUEUE, message_about(job_id))
    faulty.wait_for(lambda: not broker.llen(QUEUE))
    faulty.succeed_whole(faulty.submit(epochs=1), steps=10)
    assert faulty.client.job(ended) == before
    assert deleted not in {job.id for job in faulty.client.jobs()}


def test_a_crash_between_the_commit_and_the_message_delays_the_job_only(faulty, broker):
    redis_part, service, worker = (
        faulty.stack.redis, faulty.stack.service, faulty.stack.workers[0],
    )  # fmt: skip
    worker.signal(signal.SIGSTOP)  # it would ask for work without a message
    broker.client_kill_filter(_type="normal", skipme=True)
    broker.delete(QUEUE)
    redis_part.signal(signal.SIGSTOP)
    job_id = faulty.ask_to_train("unannounced").json()["id"]
    service.kill()
    redis_part.signal(signal.SIGCONT)
    assert broker.llen(QUEUE) == 0  # the service died with its message
    service.restart()
    faulty.stack.wait_for_service()
    faulty.wait_for(lambda: broker.llen(QUEUE))
    worker.signal(signal.SIGCONT)
    faulty.succeed_whole(job_id, steps=10)


def message_about(job_id):
    headers = {"lang": "py", "task": "redkiln.doorbell", "id": "1", "root_id": "1"}
    properties = {
        "correlation_id": "1", "delivery_tag": "1", "delivery_mode": 2, "priority": 0,
        "delivery_info": {"exchange": "", "routing_key": QUEUE}, "body_encoding": "utf-8",
    }  # fmt: skip
    content = {"content-encoding": "utf-8", "content-type": "application/json"}
    body = json.dumps([[job_id], {}, {}])
    return json.dumps({"body": body, "headers": headers, "properties": properties, **content})
