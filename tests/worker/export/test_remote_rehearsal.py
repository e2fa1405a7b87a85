import threading
from multiprocessing import Pipe

import pytest
import torch

from redkiln.failure import FailureCode
from redkiln.spec.exports import Export
from worker.export import remote_rehearsal
from worker.export.rehearsal import is_rehearsed
from worker.export.remote_rehearsal import Rehearsal, answer, ask
from worker.process.failed import TrainingFailed
from worker.process.handover import GREETING
from worker.tasks.image_classification.exported import make_exportable


class Sorted(torch.nn.Module):
    """Branches on data, which no exporter can follow."""

    def forward(self, images):
        return images.flatten(1) if images.sum() > 0 else -images.flatten(1)


def rehearsal(network, cache_dir):
    exportable = make_exportable(
        network, mean=[0.5], std=[0.25], image_size=8, architecture={"name": "test"}
    )
    return Rehearsal(exportable, Export(), "key", cache_dir, threads=1)


@pytest.fixture
def ends():
    ours, theirs = Pipe()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def exporter(ends):
    """The trainer's end of a connection at whose other end an exporter answers one request."""
    ours, theirs = ends
    theirs.send_bytes(GREETING)
    thread = threading.Thread(target=answer, args=(theirs,))
    thread.start()
    yield ours
    thread.join()


def test_the_exporter_rehearses_and_remembers_the_verdict(exporter, tmp_path):
    assert ask(exporter, rehearsal(torch.nn.Flatten(), tmp_path)) < 1e-6
    assert is_rehearsed("key", cache_dir=tmp_path)


def test_a_model_that_cannot_be_exported_is_refused_as_in_the_trainer(exporter, tmp_path):
    with pytest.raises(TrainingFailed, match="cannot be exported") as caught:
        ask(exporter, rehearsal(Sorted(), tmp_path))
    assert caught.value.failure.code is FailureCode.EXPORT_REFUSED
    assert not is_rehearsed("key", cache_dir=tmp_path)


def test_an_exporter_that_is_gone_gives_no_answer(ends, tmp_path):
    ours, theirs = ends
    theirs.send_bytes(GREETING)
    theirs.close()
    assert ask(ours, rehearsal(torch.nn.Flatten(), tmp_path)) is None


def test_a_process_without_the_greeting_is_not_used_as_exporter(ends, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_rehearsal, "GREETING_SECONDS", 0.0)
    ours, theirs = ends
    assert ask(ours, rehearsal(torch.nn.Flatten(), tmp_path)) is None
    theirs.send_bytes(b"something else")
    assert ask(ours, rehearsal(torch.nn.Flatten(), tmp_path)) is None


def test_a_model_that_cannot_be_sent_is_left_to_the_trainer(ends, tmp_path):
    ours, theirs = ends
    theirs.send_bytes(GREETING)
    network = torch.nn.Flatten()
    network.helper = lambda: None
    assert ask(ours, rehearsal(network, tmp_path)) is None


def test_a_request_that_cannot_be_read_ends_the_connection(ends):
    ours, theirs = ends
    ours.send_bytes(b"no model")
    assert answer(theirs) is False
    with pytest.raises(EOFError):
        ours.recv_bytes()
