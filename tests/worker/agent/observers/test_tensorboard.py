import errno
from datetime import UTC, datetime

import numpy as np
import pytest
from safetensors.numpy import save_file
from tensorboardX.proto.event_pb2 import SessionLog

from redkiln.events import Event, EventKind
from tests.worker.tfevents.test_event_file import read
from worker.agent.observers import tensorboard
from worker.agent.observers.tensorboard import TensorBoard, load_history, name_folder

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def metrics(**points):
    names = {name.replace("__", "/"): told for name, told in points.items()}
    return Event(at=AT, kind=EventKind.METRICS, data={"points": names})


def scalars(path):
    return [
        (value.tag, event.step, round(value.simple_value, 4))
        for event in read(path)
        for value in event.summary.value
    ]


def test_metrics_become_scalars_while_the_attempt_runs(tmp_path):
    path = tmp_path / "extra" / "events.out.tfevents"
    board = TensorBoard([path])
    assert not path.exists(), "an attempt without metrics leaves no file"
    board.on_event(metrics(train__loss=[[1, 2.0], [2, 1.5]], lr=[[2, 0.1]]))
    assert scalars(path) == [("train/loss", 1, 2.0), ("train/loss", 2, 1.5), ("lr", 2, 0.1)]
    assert read(path)[1].wall_time == AT.timestamp()
    board.on_event(metrics(val__accuracy=[[2, 0.5]]))
    board.on_event(Event(at=AT, kind=EventKind.RESULT, data={"metrics": {"test/accuracy": 0.75}}))
    assert scalars(path)[3:] == [("val/accuracy", 2, 0.5), ("test/accuracy", 2, 0.75)]
    board.close()


def test_points_that_training_repeats_are_discarded(tmp_path):
    path = tmp_path / "events.out.tfevents"
    board = TensorBoard([path])
    back = Event(at=AT, kind=EventKind.METRICS, data={"points": {}, "undone_after": 1})
    board.on_event(back)
    assert not path.exists()
    board.on_event(metrics(train__loss=[[1, 2.0], [2, 9.0]]))
    board.on_event(back)
    board.on_event(metrics(train__loss=[[2, 1.5]]))
    board.close()
    told = read(path)[1:]
    # TensorBoard drops what came before a session's start, from its step on.
    starts = [
        (event.step, event.session_log.status) for event in told if event.HasField("session_log")
    ]
    assert starts == [(2, SessionLog.START)]
    assert told[2].HasField("session_log")
    assert [event.step for event in told] == [1, 2, 2, 2]


def test_a_folder_for_all_jobs_gets_the_same_events(tmp_path):
    folder = name_folder(tmp_path, job_id="job_01ab", job_name="../flowers & co")
    assert folder == tmp_path / "flowers---co-01ab"
    paths = [tmp_path / "a" / "events.out.tfevents", folder / "events.out.tfevents.001"]
    board = TensorBoard(paths)
    board.on_event(metrics(train__loss=[[1, 2.0]]))
    board.close()
    assert scalars(paths[0]) == scalars(paths[1]) == [("train/loss", 1, 2.0)]


def test_a_resumed_attempt_begins_with_the_curve_of_its_checkpoint(tmp_path):
    checkpoint = tmp_path / "step-000000000002.safetensors"
    save_file(
        {
            "history/train/loss": np.array([[1.0, 2.0], [3.0, 2.5]]),
            "model/weight": np.zeros(3),
        },
        checkpoint,
    )
    history = load_history(checkpoint)
    assert history == {"train/loss": [(1, 3.0), (2, 2.5)]}
    path = tmp_path / "events.out.tfevents"
    board = TensorBoard([path])
    board.resume(history, step=2, at=AT)
    board.on_event(metrics(train__loss=[[3, 2.0]]))
    board.close()
    assert scalars(path) == [("train/loss", s, v) for s, v in ((1, 3.0), (2, 2.5), (3, 2.0))]


def shown(folder):
    """What TensorBoard shows of a folder's files: a session's start drops what is from its step."""
    points = []
    for path in sorted(folder.iterdir()):
        for event in read(path):
            if event.HasField("session_log"):
                assert event.session_log.status == SessionLog.START
                points = [point for point in points if point[1] < event.step]
            points += [(v.tag, event.step, round(v.simple_value, 4)) for v in event.summary.value]
    return points


@pytest.mark.parametrize(("resumed_from", "left"), [(2, [1, 2]), (None, [])])
def test_a_later_attempts_file_discards_repeated_points(tmp_path, resumed_from, left):
    folder, own = tmp_path / "all", tmp_path / "extra" / "events.out.tfevents"
    first = TensorBoard([folder / "events.out.tfevents.001"])
    first.on_event(metrics(train__loss=[[1, 2.0], [2, 1.5], [3, 1.2]], lr=[[1, 0.1], [3, 0.1]]))
    first.close()
    second = TensorBoard([own, folder / "events.out.tfevents.002"])
    history = {"train/loss": [(1, 2.0), (2, 1.5)]}
    if resumed_from is not None:
        second.resume(history, step=resumed_from, at=AT)
    begin = (resumed_from or 0) + 1
    second.on_event(metrics(train__loss=[[begin, 1.3], [begin + 1, 1.1]], lr=[[begin, 0.2]]))
    second.close()
    for path in (folder, own.parent):
        steps = [step for name, step, _ in shown(path) if name == "train/loss"]
        assert steps == [*left, begin, begin + 1]
    lr = [(step, value) for name, step, value in shown(folder) if name == "lr"]
    assert lr == [*((step, 0.1) for step in left if step == 1), (begin, 0.2)]


@pytest.mark.parametrize(("undone_after", "begin"), [(0, 1), (1, 2), (None, 1)])
def test_a_restart_before_the_checkpoint_discards_those_points_too(tmp_path, undone_after, begin):
    first = TensorBoard([tmp_path / "events.out.tfevents.001"])
    first.on_event(metrics(train__loss=[[1, 2.0], [2, 1.5], [3, 1.2]]))
    first.close()
    second = TensorBoard([tmp_path / "events.out.tfevents.002"])
    second.resume({}, step=3, at=AT)
    if undone_after is not None:
        data = {"points": {}, "undone_after": undone_after}
        second.on_event(Event(at=AT, kind=EventKind.METRICS, data=data))
    second.on_event(metrics(train__loss=[[begin, 1.3], [begin + 1, 1.1]]))
    second.close()
    assert [step for _, step, _ in shown(tmp_path)] == list(range(1, begin + 2))


def test_a_checkpoint_that_cannot_be_read_has_no_history(tmp_path):
    (tmp_path / "broken.safetensors").write_bytes(b"state at step 5")
    assert load_history(tmp_path / "broken.safetensors") == {}
    assert load_history(tmp_path / "missing.safetensors") == {}


def test_a_full_disk_ends_the_file_and_nothing_else(tmp_path, monkeypatch):
    class Full(tensorboard.EventFile):
        def add(self, *_, **__):
            raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(tensorboard, "EventFile", Full)
    board = TensorBoard([tmp_path / "events.out.tfevents"])
    board.on_event(metrics(train__loss=[[1, 2.0]]))
    board.on_event(metrics(train__loss=[[2, 1.0]]))
    board.close()


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_value_that_is_not_a_number_is_written_as_nan(tmp_path, value):
    board = TensorBoard([tmp_path / "events.out.tfevents"])
    board.on_event(metrics(train__loss=[[1, value]]))
    board.close()
    (_, step, shown), *_ = scalars(tmp_path / "events.out.tfevents")
    assert step == 1
    assert shown != shown
