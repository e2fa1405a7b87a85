"""Jobs whose images do not fit: their curves are those of jobs whose images do."""

import os

import pytest

from redkiln.failure import FailureCode
from worker.checkpoints.checkpoint import CheckpointStore
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped
from worker.trainer.images.decode.ahead import DecodingRows
from worker.trainer.images.rows.read_ahead import DEPTH, WINDOW

TRAINING = {"epochs": 2, "class_weights": "balanced", "augment": {"erase": 0.3, "hue": 0.1}}
FROM_DISK = {"data_memory_bytes": 0}


@pytest.fixture
def packed(tmp_path):
    """Of an order whose worker has no room for decoded images."""
    return {"decoded_bytes": 0, "cache_dir": str(tmp_path / "no-room")}


def train(job_dir, start):
    loop, setup = start(job_dir)
    loop.run()
    setup.close()
    return loop


def test_resident_stored_and_packed_images_give_the_same_loss_curve(
    make_job, start, losses, events, packed
):
    resident = make_job("resident", training=TRAINING)
    train(resident, start)
    assert len(losses(resident)) == 12
    for name, order in (("disk", FROM_DISK), ("packed", packed)):
        job_dir = make_job(name, training=TRAINING, order=order)
        train(job_dir, start)
        assert losses(job_dir) == losses(resident), name
    said = [event["data"].get("text", "") for event in events(job_dir)]
    (text,) = [text for text in said if "REDKILN_DECODED_BYTES" in text]
    assert "again in every epoch" in text
    assert "images/s" in text


def test_a_job_uses_the_same_decoding_processes_throughout(make_job, start, packed, monkeypatch):
    started = []
    begin = DecodingRows._start

    def count(*arguments):
        started.append(arguments)
        return begin(*arguments)

    monkeypatch.setattr(DecodingRows, "_start", count)
    loop, setup = start(make_job(training={**TRAINING, "epochs": 4}, order=packed))
    loop.run()
    setup.close()
    assert "val/accuracy" in loop.history.series
    assert len(started) == len(os.sched_getaffinity(0))


def test_a_job_starts_with_the_depth_the_previous_job_settled_on(make_job, start, tmp_path):
    order = {"cache_dir": str(tmp_path / "cache")}

    def open_batches(name, **training):
        return start(make_job(name, order=order, training=training))[1].batches

    ahead = open_batches("first").read_ahead
    assert ahead.depth == DEPTH
    # Steps wait for half of their time, and at twice the depth for nothing.
    shares = [0.5] * (WINDOW + 1) + [0.0] * (WINDOW + 1)
    for second, share in enumerate(shares):
        ahead.note(waited_seconds=share, now=float(second))
    assert ahead.depth == 2 * DEPTH
    assert open_batches("second").read_ahead.depth == 2 * DEPTH
    # Other batches are another kind of job.
    assert open_batches("other", batch_size=4).read_ahead.depth == DEPTH


@pytest.mark.parametrize("stop_after", [1, 6, 8])
def test_a_run_that_reads_from_disk_resumes_exactly(make_job, start, losses, stop_after):
    straight = make_job("straight", training=TRAINING)
    train(straight, start)
    first = make_job("first", training=TRAINING, order=FROM_DISK)
    interrupted, setup = start(first, stop_after=stop_after)
    with pytest.raises(Stopped):
        interrupted.run()
    setup.close()
    newest = CheckpointStore(first.checkpoints_dir).manifests()[-1]
    second = make_job("first", training=TRAINING, order={**FROM_DISK, "resume": newest.name})
    train(second, start)
    assert losses(second) == losses(straight)


def test_a_decoded_file_damaged_during_training_fails_the_job_with_its_row(
    make_job, start, tmp_path
):
    cache_dir = tmp_path / "cache"
    job_dir = make_job("job", order={**FROM_DISK, "cache_dir": str(cache_dir)})
    loop, setup = start(job_dir)
    loop.advance(1)
    (path,) = cache_dir.glob("decoded/*/images.npy")
    os.truncate(path, 1000)
    with pytest.raises(TrainingFailed, match=r"row \d+ of the decoded images") as caught:
        loop.run()
    setup.close()
    assert caught.value.failure.code is FailureCode.DATASET_UNAVAILABLE
    assert str(path) in caught.value.failure.message


def test_weights_for_unknown_classes_fail_the_job_before_training(make_job, start):
    with pytest.raises(TrainingFailed, match="did you mean 'dots'") as caught:
        start(make_job("job", training={"class_weights": {"dotts": 2.0}}))
    assert caught.value.failure.code is FailureCode.BAD_INPUT
