import json
import os
import struct
import subprocess
import sys
import time

import pytest

from worker.script.metrics.lines import MetricLines, ScriptMetrics, line_reader
from worker.script.metrics.output import MAX_LINE_BYTES, NOTE, OutputPump
from worker.script.metrics.sources import MetricSources
from worker.script.metrics.tensorboard import EventFiles


@pytest.fixture
def told(event_log, clock):
    return ScriptMetrics(event_log, clock=clock)


def test_metrics_become_series_and_the_latest_are_in_the_progress(told, event_log, events):
    told.say({"loss": 0.5}, progress={"step": 1, "steps": 4})
    told.say({"loss": 0.25, "accuracy": 1}, progress={"step": 2})
    event_log.flush_points()
    (data,) = events("metrics")
    assert data["points"] == {"loss": [[1, 0.5], [2, 0.25]], "accuracy": [[2, 1.0]]}
    progress = told.progress()
    assert (progress.step, progress.steps, progress.fraction) == (2, 4, 0.5)
    assert progress.metrics == {"loss": 0.25, "accuracy": 1.0}


def test_the_remaining_time_is_known_if_the_steps_are(told, clock):
    told.say({}, progress={"step": 10, "steps": 100})
    assert told.progress().eta_seconds is None
    clock.now = 20.0
    told.say({}, progress={"step": 20})
    assert told.progress().eta_seconds == pytest.approx(160.0)


def test_the_remaining_time_is_known_if_only_the_epochs_are(told, clock):
    told.say({}, progress={"epoch": 1, "epochs": 5})
    assert told.progress().eta_seconds is None
    clock.now = 20.0
    told.say({}, progress={"epoch": 2})
    assert told.progress().eta_seconds == pytest.approx(60.0)


def test_epochs_give_the_progress_without_steps(told):
    told.say({}, progress={"epoch": 1, "epochs": 4})
    assert told.progress().fraction == 0.25


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "low", None, [1], True])
def test_values_that_are_not_finite_are_dropped_and_counted(told, value):
    told.say({"loss": value})
    assert (told.metrics, told.num_dropped) == ({}, 1)
    assert told.first_dropped == f"'loss' at step 0 ({str(value)!r} is not a finite number)"


def test_the_number_of_series_is_bounded(told):
    told.say({f"m{number}": 1 for number in range(600)})
    assert len(told.metrics) == 500
    assert told.num_dropped == 100
    assert told.first_dropped == "'m500' at step 1 (a job has at most 500 series)"


def test_dropped_values_are_a_warning_that_names_the_first(paths, event_log, events):
    sources = MetricSources(paths, event_log, pattern=None)
    sources.report_dropped()
    assert events("warning") == []
    sources.metrics.say({"loss": float("nan")}, progress={"step": 7})
    sources.report_dropped()
    sources.metrics.say({"loss": float("inf")}, progress={"step": 8})
    sources.report_dropped()
    first = "'loss' at step 7 ('nan' is not a finite number)"
    assert [data["message"] for data in events("warning")] == [
        f"1 value of a metric was dropped: {first}",
        f"2 values of metrics were dropped: the first is {first}",
    ]


def test_a_repeated_step_adds_no_second_point(told, event_log, events):
    told.say({"loss": 1}, progress={"step": 5})
    told.say({"loss": 2}, progress={"step": 5})
    told.say({"loss": 3}, progress={"step": 3})
    event_log.flush_points()
    assert events("metrics")[0]["points"] == {"loss": [[5, 1.0]]}


def points_of(told, events):
    told.event_log.flush_points()
    (data,) = events("metrics")
    return data["points"]


def test_without_steps_and_epochs_a_resumed_script_continues_its_count(event_log, events):
    before = ScriptMetrics(event_log)
    for loss in (3, 2):
        before.say({"loss": loss})
    assert before.last_step == 2
    told = ScriptMetrics(event_log, first=before.last_step + 1)
    told.say({"loss": 1})
    assert points_of(told, events) == {"loss": [[1, 3.0], [2, 2.0], [3, 1.0]]}


@pytest.mark.parametrize("first", [0, 1])
def test_without_steps_the_curves_are_over_epochs(told, events, first):
    for epoch in range(first, first + 3):
        told.say(
            {"loss": 1 / (epoch + 1), "accuracy": epoch}, progress={"epoch": epoch, "epochs": 3}
        )
    points = points_of(told, events)
    assert [step for step, _ in points["loss"]] == [first, first + 1, first + 2]
    assert [value for _, value in points["accuracy"]] == [first, first + 1, first + 2]


def test_several_values_in_an_epoch_are_all_kept(told, events):
    for epoch in (1, 2):
        for batch in range(3):
            told.say({"loss": epoch + batch / 10}, progress={"epoch": epoch})
        told.say({"val/loss": epoch}, progress={"epoch": epoch})
    points = points_of(told, events)
    assert points["loss"] == [[1, 1.0], [2, 1.1], [3, 1.2], [4, 2.0], [5, 2.1], [6, 2.2]]
    assert points["val/loss"] == [[1, 1.0], [2, 2.0]]


def test_without_steps_and_epochs_each_series_is_counted(told, events):
    told.say({"loss": 0.5})
    told.say({"loss": 0.25, "accuracy": 1})
    points = points_of(told, events)
    assert points == {"loss": [[1, 0.5], [2, 0.25]], "accuracy": [[1, 1.0]]}


def test_a_step_that_is_reported_counts_for_later_values_without_one(told, events):
    told.say({"loss": 0.5}, progress={"step": 10, "epoch": 1})
    told.say({"accuracy": 1}, progress={"epoch": 2})
    assert points_of(told, events) == {"loss": [[10, 0.5]], "accuracy": [[10, 1.0]]}


def test_a_pattern_with_epochs_alone_gives_a_curve(told, events):
    read = line_reader(r"epoch (?P<epoch>\d+) loss (?P<loss>[0-9.]+)", told)
    for epoch, loss in ((1, 0.5), (2, 0.25), (3, 0.125)):
        read(f"epoch {epoch} loss {loss}")
    assert points_of(told, events) == {"loss": [[1, 0.5], [2, 0.25], [3, 0.125]]}


def test_new_lines_are_read_and_an_incomplete_line_waits(told, tmp_path):
    path = tmp_path / "events.jsonl"
    said = MetricLines(path, told)
    said.read()
    path.write_text('{"step": 1, "metrics": {"loss": 1}}\n{"step": 2, "metr')
    said.read()
    assert told.step == 1
    with path.open("a") as file:
        file.write('ics": {"loss": 2}}\nno json\n[1]\n{"gpu_bytes": 4096}\n')
    said.read()
    assert (told.step, told.metrics, told.num_dropped) == (2, {"loss": 2.0}, 2)
    assert said.gpu_bytes == 4096


def test_a_pattern_finds_metrics_in_lines_of_output(told):
    read = line_reader(r"step (?P<step>\d+)/(?P<steps>\d+) loss=(?P<loss>\S+)", told)
    read("step 5/10 loss=0.25 and more")
    read("nothing of it")
    assert (told.step, told.steps, told.metrics) == (5, 10, {"loss": 0.25})


def pump(data, tmp_path, **options):
    source, target = os.pipe()
    log = tmp_path / "log"
    with log.open("wb") as file:
        reading = OutputPump(source, file.fileno(), **options)
        os.write(target, data)
        os.close(target)
        reading.finish(timeout_seconds=60)
    return reading, log.read_bytes()


def test_output_with_any_bytes_arrives_complete(tmp_path):
    data = bytes(range(256)) * 100
    reading, log = pump(data, tmp_path)
    assert log == data
    assert len(reading.tail()) <= 16_384


def test_endless_output_is_cut_with_a_note(tmp_path):
    _, log = pump(b"x" * 5000, tmp_path, max_bytes=1000)
    assert log == b"x" * 1000 + NOTE


def test_lines_are_split_at_carriage_returns_and_bounded(tmp_path):
    lines = []
    pump(b"a\rb\n" + b"c" * 20_000 + b"\nend", tmp_path, on_line=lines.append)
    assert lines[:2] == ["a", "b"]
    assert len(lines[2]) <= MAX_LINE_BYTES
    assert lines[-1] == "end"


def await_scalars(files, *, seconds=60.0):
    """The next scalars, which the library writes from a separate thread."""
    deadline = time.monotonic() + seconds
    while not (found := list(files.read())) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found


def test_tensorboard_scalars_are_read_as_the_file_grows(tmp_path):
    from tensorboardX import SummaryWriter

    files = EventFiles(tmp_path)
    assert list(files.read()) == []
    with SummaryWriter(str(tmp_path / "runs"), flush_secs=0) as writer:
        writer.add_scalar("loss", 0.5, 1)
        assert await_scalars(files) == [("loss", 1, 0.5)]
        writer.add_scalar("loss", 0.25, 2)
        writer.add_text("note", "x", 2)
        assert await_scalars(files) == [("loss", 2, 0.25)]
    with SummaryWriter(str(tmp_path / "other")) as writer:
        writer.add_scalar("loss", 1.0, 1)
    assert list(files.read()) == [("other/loss", 1, 1.0)]


def write_event(path, *values, step=3):
    """One record, as TensorFlow and TensorBoard's own writers have them."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary

    record = Event(step=step, wall_time=1.0, summary=Summary(value=values)).SerializeToString()
    path.write_bytes(struct.pack("<Q", len(record)) + b"crc4" + record + b"crc4")


def test_scalar_tensors_are_read_and_other_tensors_are_not(tmp_path):
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.proto.tensor_pb2 import TensorProto
    from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto

    vector = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensors = {
        "floats": TensorProto(dtype="DT_FLOAT", float_val=[0.5]),
        "doubles": TensorProto(dtype="DT_DOUBLE", double_val=[0.25]),
        "content": TensorProto(dtype="DT_FLOAT", tensor_content=struct.pack("<f", 2.0)),
        "long": TensorProto(dtype="DT_DOUBLE", tensor_content=struct.pack("<d", 4.0)),
        "vector": TensorProto(dtype="DT_FLOAT", tensor_shape=vector, float_val=[1.0]),
        "several": TensorProto(dtype="DT_FLOAT", float_val=[1.0, 2.0]),
        "text": TensorProto(dtype="DT_STRING", string_val=[b"x"]),
        "number": TensorProto(dtype="DT_INT32", tensor_content=struct.pack("<i", 7)),
    }
    values = [Summary.Value(tag=tag, tensor=tensor) for tag, tensor in tensors.items()]
    write_event(tmp_path / "a.tfevents", Summary.Value(tag="plain", simple_value=8.0), *values)
    assert list(EventFiles(tmp_path).read()) == [
        ("plain", 3, 8.0),
        ("floats", 3, 0.5),
        ("doubles", 3, 0.25),
        ("content", 3, 2.0),
        ("long", 3, 4.0),
    ]


def test_reading_event_files_does_not_import_torch():
    code = "import sys, worker.script.run; print(sorted({'torch', 'google'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_file_that_is_not_tensorboards_is_ignored(tmp_path):
    (tmp_path / "x.tfevents").write_bytes(
        struct.pack("<Q", 4) + b"crc4" + b"\xff\xff\xff\xff" + b"crc4"
    )
    files = EventFiles(tmp_path)
    assert list(files.read()) == []
    assert list(files.read()) == []


def test_lines_written_by_redkiln_log_are_read(told, tmp_path, monkeypatch):
    from redkiln.reporting import log

    path = tmp_path / "events.jsonl"
    monkeypatch.setenv("REDKILN_EVENTS", str(path))
    log(step=2, steps=4, loss=float("nan"), accuracy=1)
    MetricLines(path, told).read()
    assert (told.step, told.metrics, told.num_dropped) == (2, {"accuracy": 1.0}, 1)
    json.dumps(told.progress().model_dump())


def test_a_pipe_in_place_of_a_log_does_not_block(told, tmp_path):
    os.mkfifo(tmp_path / "events.jsonl")
    MetricLines(tmp_path / "events.jsonl", told).read()
    os.mkfifo(tmp_path / "x.tfevents.1")
    assert list(EventFiles(tmp_path).read()) == []


def test_late_values_keep_their_steps(told, event_log, events):
    told.say({}, progress={"step": 100})
    for step in (10, 20):
        told.say({"loss": 1 / step}, progress={"step": 100}, of_step=step)
    event_log.flush_points()
    (data,) = events("metrics")
    assert data["points"] == {"loss": [[10, 0.1], [20, 0.05]]}
    assert told.progress().step == 100


@pytest.mark.parametrize("step", [2**53, 2**63, -1])
def test_values_of_steps_that_cannot_be_counted_are_dropped_and_counted(told, event_log, step):
    told.say({"loss": 0.5, "accuracy": 0.5}, of_step=step)
    event_log.flush_points()
    assert (told.num_dropped, told.metrics, told.last_step) == (2, {}, 0)
