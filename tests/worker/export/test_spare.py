import os
from multiprocessing import Pipe

import pytest
from torch.onnx._internal.exporter import _registration

from worker.export import spare
from worker.export.spare import wait_for_job


@pytest.fixture
def stdin(monkeypatch):
    """The end to which the agent writes."""
    theirs, ours = os.pipe()
    kept = os.dup(0)
    os.dup2(theirs, 0)
    with os.fdopen(ours, "wb", buffering=0) as agent, os.fdopen(os.dup(0)) as text:
        monkeypatch.setattr("sys.stdin", text)
        yield agent
    os.dup2(kept, 0)
    for number in (theirs, kept):
        os.close(number)


@pytest.fixture
def done(monkeypatch):
    """What the process does, in order; the request that is answered brings the job."""
    return []


def test_it_warms_up_only_while_nobody_asks(stdin, done, monkeypatch):
    trainer, requests = Pipe()

    def first_step():
        done.append("first step")
        trainer.send_bytes(b"question")

    def answer(connection):
        done.append(connection.recv_bytes().decode())
        return True

    def second_step():
        done.append("second step")
        stdin.write(b"/jobs/1\n")

    steps = [first_step, second_step, lambda: done.append("third step")]
    monkeypatch.setattr(spare, "WARM_UP", steps)
    monkeypatch.setattr(spare, "answer", answer)
    assert str(wait_for_job(requests).root) == "/jobs/1"
    assert done == ["first step", "question", "second step"]


def test_a_step_that_fails_and_a_trainer_that_leaves_do_not_end_it(stdin, done, monkeypatch):
    trainer, requests = Pipe()
    trainer.close()

    def fail():
        raise RuntimeError("no such table")

    def last_step():
        done.append("last step")
        stdin.write(b"/jobs/1\n")

    monkeypatch.setattr(spare, "WARM_UP", [fail, last_step])
    assert str(wait_for_job(requests).root) == "/jobs/1"
    assert done == ["last step"]


def test_it_leaves_when_the_agent_does(stdin):
    stdin.close()
    assert wait_for_job(None) is None


def test_every_step_works_and_the_registry_is_built_once(monkeypatch):
    registry = _registration.ONNXRegistry
    if hasattr(registry.from_torchlib, "cache_clear"):  # after another export in this process
        registry.from_torchlib.cache_clear()
    built = []
    finish = registry._cleanup_registry_based_on_opset_version
    monkeypatch.setattr(
        registry,
        "_cleanup_registry_based_on_opset_version",
        lambda self: (built.append(self), finish(self)),
    )
    for step in (*spare.WARM_UP, spare.trace_model):
        step()
    assert len(built) == 1
