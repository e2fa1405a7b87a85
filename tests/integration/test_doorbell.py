"""Jobs run even if the broker forgets or doubles messages, hangs, or is gone."""

import json
import signal
import time

import pytest
import redis

pytestmark = pytest.mark.integration

QUEUE = "redkiln"


@pytest.fixture
def broker(site):
    client = redis.Redis(
        unix_socket_path=str(site.stack.redis_socket_path),
        password=site.stack.redis_password,
        socket_timeout=2,
    )
    yield client
    client.close()


def queue_up(site, broker):
    """A job whose message waits in the queue, because the only worker is stopped."""
    site.stack.workers[0].signal(signal.SIGSTOP)
    # A worker that waits in BRPOP would still be handed the message.
    broker.client_kill_filter(_type="normal", skipme=True)
    job_id = site.submit(epochs=1)
    site.wait_for(lambda: broker.llen(QUEUE))
    return job_id


def submit_at_once(site):
    """Submit three jobs; the last one's id. If they waited for Redis, each would take 2 s."""
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        job_id = site.submit(epochs=1)
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 2
    return job_id


def finish(site, job_id):
    site.stack.workers[0].signal(signal.SIGCONT)
    job = site.wait_for_end(job_id)
    assert job.status == "succeeded"
    assert len(job.attempts) == 1
    return job


def test_the_same_message_twice_is_one_attempt(site, broker):
    job_id = queue_up(site, broker)
    message = broker.lindex(QUEUE, 0)
    for _ in range(3):
        broker.lpush(QUEUE, message)
    finish(site, job_id)
    site.wait_for(lambda: not broker.llen(QUEUE))
    assert len(site.client.job(job_id).attempts) == 1


def test_a_flushed_redis_loses_no_job(site, broker):
    job_id = queue_up(site, broker)
    # In one transaction, because the service publishes messages that nobody claimed again.
    flush = broker.pipeline(transaction=True).flushall().llen(QUEUE)
    assert flush.execute() == [True, 0]
    finish(site, job_id)


def test_a_redis_that_is_gone_holds_nothing_up(site):
    redis_part = site.stack.redis
    redis_part.stop()
    assert not redis_part.is_running
    finish(site, submit_at_once(site))
    assert not redis_part.is_running


def test_a_redis_that_hangs_holds_nothing_up(site):
    redis_part = site.stack.redis
    redis_part.signal(signal.SIGSTOP)
    finish(site, submit_at_once(site))
    redis_part.signal(signal.SIGCONT)


def test_after_redis_was_away_the_doorbell_rings_again(site, broker):
    site.stack.redis.kill()
    site.stack.redis.restart()
    site.stack.wait_for_redis()
    assert_rings(site, broker)


def test_nonsense_in_the_queue_does_not_end_the_doorbell(site, broker):
    broker.lpush(QUEUE, b"nonsense")
    site.wait_for(lambda: "JSONDecodeError" in site.stack.workers[0].read_log())
    assert_rings(site, broker)


def assert_rings(site, broker):
    job_id = site.submit(epochs=1)
    finish(site, job_id)
    # The service may have sent it again; any listener removes it.
    site.wait_for(lambda: not broker.llen(QUEUE))
    broker.lpush(QUEUE, doorbell_message())
    site.wait_for(lambda: not broker.llen(QUEUE))


def doorbell_message():
    headers = {"lang": "py", "task": "redkiln.doorbell", "id": "1", "root_id": "1"}
    properties = {
        "correlation_id": "1",
        "delivery_tag": "1",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": QUEUE},
        "priority": 0,
        "body_encoding": "utf-8",
    }
    return json.dumps(
        {
            "body": '[["job_none"], {}, {}]',
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": properties,
        }
    )


def test_a_worker_can_leave_a_broker_that_hangs(site):
    site.stack.redis.signal(signal.SIGSTOP)
    worker = site.stack.workers[0]
    worker.signal(signal.SIGTERM)
    assert worker.wait(40)
    assert worker.exit_status == 0
