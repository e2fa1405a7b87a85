import pytest

from worker.app import QUEUE_NAME, TASK_NAME, build_app


class Agent:
    num_slots = 3

    def __init__(self):
        self.hints = []
        self.is_free = True

    def answer(self, hint):
        self.hints.append(hint)
        return self.is_free


@pytest.fixture
def agent():
    return Agent()


@pytest.fixture
def app(agent):
    app = build_app(agent, broker_url="memory://")
    yield app
    app.close()


def messages(app):
    with app.connection_for_read() as connection, connection.SimpleQueue(QUEUE_NAME) as queue:
        found = []
        while queue.qsize():
            message = queue.get_nowait()
            message.ack()
            found.append(message.payload[0])
        return found


def test_a_message_is_received_once_and_never_returned(app):
    conf = app.conf
    assert conf.task_acks_late is False
    assert (conf.worker_prefetch_multiplier, conf.worker_disable_prefetch) == (1, True)
    assert conf.broker_transport_options["visibility_timeout"] == 3600
    assert conf.accept_content == ["json"]
    assert (conf.worker_pool, conf.worker_concurrency) == ("threads", 3)


def test_the_doorbell_passes_its_hint_to_the_agent(app, agent):
    app.tasks[TASK_NAME]("job_1")
    assert agent.hints == ["job_1"]
    assert messages(app) == []


def test_a_busy_worker_passes_the_doorbell_on(app, agent):
    agent.is_free = False
    app.tasks[TASK_NAME]("job_1")
    assert messages(app) == [["job_1"]]


def test_a_received_message_needs_no_acknowledgement(app):
    app.send_task(TASK_NAME, ["job_1"], queue=QUEUE_NAME)
    heard = []
    with app.connection_for_read() as connection:
        connection.default_channel.basic_qos(0, 1, False)
        consumer = app.amqp.TaskConsumer(connection)
        consumer.on_message = heard.append
        consumer.consume()
        connection.drain_events(timeout=1)
        assert heard[0].payload[0] == ["job_1"]
        assert consumer.channel.qos.can_consume()

    def refuse(*_arguments):
        pytest.fail("the broker is asked")

    request = app.tasks[TASK_NAME].Request(heard[0], app=app, on_ack=refuse)
    request.on_accepted(1, 0.0)
    assert request.acknowledged
