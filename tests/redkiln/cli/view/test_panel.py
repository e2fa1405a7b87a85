import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from redkiln.cli.view.live import progress_words
from redkiln.cli.view.panel import JobPanel, epoch_words, shown_metrics
from redkiln.cli.view.watched import Line, Watched, describe_event
from redkiln.client.watching import Disconnected, Reconnected, Snapshot
from redkiln.views.job import EventView, JobView, Progress
from redkiln.views.metrics import TelemetrySeries

NOW = datetime.now(UTC)


def job(**fields):
    return JobView(
        id="job_0123456789abcdefghijkl",
        name="flowers",
        task="image-classification",
        is_terminal=False,
        spec={"dataset": "flowers"},
        dataset_id="ds_1",
        created_at=NOW - timedelta(seconds=70),
        **{"status": "running", "started_at": NOW - timedelta(seconds=65), **fields},
    )


def progress(**fields):
    return {
        "epoch": 3,
        "epochs": 10,
        "step": 1234,
        "steps": 5000,
        "fraction": 0.25,
        "samples_per_second": 8123.4,
        "eta_seconds": 100.0,
        "metrics": {"train/loss": 0.1234, "val/accuracy": 0.978, "lr": 0.001},
        **fields,
    }


def event(kind, seq=1, **data):
    return EventView(seq=seq, at=NOW, kind=kind, data=data)


def draw(watched, *, width=80, encoding="utf-8"):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    console.print(JobPanel(watched, interrupt_means="detaches"))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


@pytest.fixture
def watched():
    state = Watched(job(phase="training"), dataset_name="flowers-v2", clock=lambda: 0.0)
    for step, loss in ((1, 2.0), (2, 1.0), (1234, 0.5), (1234, 0.5)):
        metrics = {"train/loss": loss, "val/accuracy": 0.978}
        state.apply(
            Snapshot(
                status="running",
                phase="training",
                progress=progress(step=step, metrics=metrics),
                started_at=NOW - timedelta(seconds=65),
                finished_at=NOW,
            )
        )
    return state


def test_the_panel_of_a_running_job_shows_its_progress(watched):
    drawn = draw(watched)
    for words in (
        "flowers  on flowers-v2", "running  training", "● train", "1 min 05 s", "25 %",
        "ETA 1 min 40 s", "3/10", "1,234/5,000", "8,123", "val accuracy  97.8 %", "█▃▁",
        "job_0123456789abcdefghijkl",
    ):  # fmt: skip
        assert words in drawn


def test_the_panel_shows_data_wait_memory_and_sample_predictions(watched):
    assert "waits for data" not in draw(watched)
    preview = {"step": 1200, "file": "x.png", "media_type": "image/png", "num": 24}
    told = progress(
        data_wait_ratio=0.034,
        memory_used_bytes=int(1.2 * 2**30),
        memory_total_bytes=24 * 2**30,
        host_peak_bytes=700 * 2**20,
        data_bytes=92 * 2**20,
        preview={**preview, "num_right": 19},
    )
    watched.apply(Snapshot(status="running", phase="training", progress=told))
    drawn = " ".join(draw(watched).split())
    assert "waits for data 3 %" in drawn
    assert "memory 1.2 of 24.0 GiB" in drawn
    assert "host peak 700 MiB for 92 MiB of data" in drawn
    found = "sample predictions at step 1,200, 19 of 24 right: redkiln preview job_0123456789"
    assert found in draw(watched, width=100)


def test_the_panel_shows_the_learning_rate_once_it_is_known(watched):
    assert "learning rate" not in draw(watched)
    told = progress(metrics={"train/loss": 0.1, "lr": 3.333e-5})
    watched.apply(Snapshot(status="running", phase="training", progress=told))
    assert "learning rate 3.33e-05" in " ".join(draw(watched).split())
    assert "lr 3.33e-05" in progress_words(watched)


def test_tuning_kernels_is_shown_as_an_activity(watched):
    activity = "tuning kernels for the first run on this GPU (35 s so far); this may take minutes"
    told = progress(step=0, fraction=0.0, activity=activity)
    watched.apply(Snapshot(status="running", phase="warming", progress=told))
    drawn = draw(watched, width=110)
    assert "running  warming" in drawn
    assert "tuning kernels for the first run on this GPU (35 s" in drawn


@pytest.mark.parametrize("width", [50, 80, 200])
def test_the_panel_leaves_room_for_ctrl_c_on_its_last_line(watched, width):
    assert max(len(line) for line in draw(watched, width=width).splitlines()) <= width - 3


def sensor(name, *values):
    places = list(range(len(values)))
    return TelemetrySeries(
        name=name, at_ms=places, values=values, num_points=len(values), downsampled=False
    )


@pytest.mark.parametrize("width", [60, 80])
def test_sensors_are_shown_below_the_numbers(watched, width):
    watched.sensors.take(
        [
            sensor("gpu/0/busy_ratio", 0.2, 0.5, 0.97),
            sensor("gpu/0/vram_used_bytes", 18.2 * 2**30),
            sensor("gpu/0/power_watts", 312.0),
            sensor("gpu/0/edge_celsius", 71.0),
            sensor("host/cpu_ratio", 0.5),
        ]
    )
    gpu = next(line for line in draw(watched, width=width).splitlines() if "gpu 0" in line)
    for words in ("97 %", "18.2 GiB", "312 W", "71 °C", "█"):
        assert words in gpu
    assert "cpu" in draw(watched)
    assert "71 C" in draw(watched, encoding="ascii")
    watched.refresh(job(status="succeeded"))
    assert "gpu 0" not in draw(watched)


def test_sensors_without_recent_readings_are_not_shown(watched):
    now = [0.0]
    watched.sensors.clock = lambda: now[0]
    watched.sensors.take([sensor("gpu/0/power_watts", 312.0)])
    assert "312 W" in draw(watched)
    now[0] = 100.0
    assert "312 W" not in draw(watched)


def test_a_terminal_without_unicode_gets_plain_signs(watched):
    assert "> train" in draw(watched, encoding="ascii")


def test_the_eta_counts_down_between_two_updates(watched):
    watched.clock = lambda: 30.0
    assert "ETA 1 min 10 s" in draw(watched)


def test_a_queued_job_shows_its_position_and_reason():
    reason = {"code": "no_live_worker", "message": "no worker is live; the job waits for one"}
    waiting = job(status="queued", started_at=None, queue_position=3, reason=reason)
    drawn = draw(Watched(waiting))
    assert "position 3, no worker is live" in drawn
    assert "no steps yet" in drawn


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        # The series that worker.tasks.image_classification and worker.trainer.text write.
        ({"decode/images": 1200.0, "decode/total": 8000.0}, "decoded 1,200 of 8,000 images"),
        ({"tokenize/texts": 1200.0, "tokenize/total": 8000.0}, "tokenised 1,200 of 8,000 texts"),
    ],
)
def test_before_the_first_step_the_panel_counts_the_preparation(metrics, words):
    state = Watched(job(progress=progress(epochs=0, step=0, steps=0, metrics=metrics)))
    assert words in draw(state)
    assert shown_metrics(metrics) == []


def test_a_regression_shows_the_metric_of_its_best_epoch():
    metrics = {"train/loss": 0.1, "val/loss": 0.2, "val/mae": 3.0, "val/r2": 0.5, "val/rmse": 4.25}
    drawn = draw(Watched(job(status="running", progress=progress(metrics=metrics))))
    assert "val rmse  4.25" in drawn


def test_an_outage_is_shown_until_it_is_over(watched):
    watched.apply(Disconnected("connection refused"))
    assert "service unreachable, retrying" in draw(watched)
    watched.apply(Reconnected())
    assert "service unreachable" not in draw(watched)
    assert "reconnected" in draw(watched)


def test_checkpoints_take_one_line(watched):
    for seq, step in enumerate((100, 200, 300)):
        watched.apply(event("checkpoint", seq, step=step))
    assert [line.text for line in watched.lines] == ["checkpoint at step 300"]


def test_texts_of_users_are_never_markup(watched):
    watched.apply(event("message", text="[red]x[/red] [/nonsense]"))
    assert "[red]x[/red] [/nonsense]" in draw(watched)


@pytest.mark.parametrize(
    ("kind", "data", "text", "tone"),
    [
        ("phase", {"phase": "training"}, "training", "phase"),
        ("message", {"text": "hello"}, "hello", "plain"),
        ("warning", {"code": "w", "message": "careful"}, "warning: careful", "warning"),
        (
            "checkpoint",
            {"step": 1500, "is_best": True},
            "checkpoint at step 1,500, the best so far",
            "quiet",
        ),
        ("failure", {"code": "diverged", "message": "NaN"}, "attempt failed: NaN", "bad"),
        (
            "resolved",
            {
                "spec": {
                    "model": {"name": "amdnet"},
                    "training": {"batch_size": 64, "precision": "fp32"},
                },
                "environment": {"device": "cpu"},
            },
            "amdnet, batch 64, fp32, on cpu",
            "plain",
        ),
        (
            "resolved",
            {"environment": {"device": "cpu", "engine": "tinygrad 1", "engine_device": "RX 580"}},
            "on RX 580 with tinygrad 1",
            "plain",
        ),
        (
            "resolved",
            {"environment": {"device": "cuda:0", "gpu": "RX 7900 XTX"}},
            "on RX 7900 XTX (cuda:0)",
            "plain",
        ),
        ("submitted", {"name": "x", "dataset_id": "ds_1"}, "submitted", "quiet"),
        ("started", {"number": 2, "worker_id": "wrk_1"}, "attempt 2 started", "quiet"),
        (
            "requeued",
            {"reason": {"code": "worker_lost", "message": "its worker was lost"}},
            "requeued: its worker was lost",
            "warning",
        ),
        ("succeeded", {}, "succeeded", "good"),
        (
            "committed",
            {"step": 1500, "size_bytes": 1},
            "checkpoint of step 1,500 is uploaded",
            "quiet",
        ),
        ("artifact", {"file": {"name": "a/net.onnx"}}, "file a/net.onnx is complete", "quiet"),
        ("newly_invented", {"amount": 3}, "newly invented: amount 3", "quiet"),
    ],
)
def test_each_kind_of_event_is_described(kind, data, text, tone):
    (line,) = describe_event(event(kind, **data))
    assert (line.text, line.tone) == (text, tone)
    assert isinstance(line, Line)


def test_an_unknown_phase_of_a_newer_service_is_not_an_error(watched):
    watched.apply(event("phase", phase="quantising"))
    assert "running" in draw(watched)


def test_a_nan_loss_does_not_break_the_panel(watched):
    metrics = {"train/loss": float("nan")}
    watched.apply(Snapshot(status="running", progress=progress(metrics=metrics)))
    assert "nan" in draw(watched)


def test_the_most_important_metrics_come_first():
    names = [
        name for name, _ in shown_metrics({"lr": 1, "x": 1, "val/accuracy": 1, "train/loss": 1})
    ]
    assert names == ["train/loss", "val/accuracy", "x"]


def test_a_job_without_export_shows_its_own_steps_and_activity():
    standing = progress(step=4, steps=6, activity="matrix product 4096 x 4096", metrics={})
    benchmark = job(phase="measuring", progress=standing).model_copy(
        update={"task": "benchmark", "dataset_id": None}
    )
    drawn = draw(Watched(benchmark))
    assert "run" in drawn
    assert "export" not in drawn
    assert "4 of 6 done, now matrix product 4096 x 4096" in drawn


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"epoch": 2, "epochs": 4}, "2/4"), ({"epoch": 0, "epochs": 0, "fraction": 0.0}, "flowers")],
)
def test_metrics_of_a_script_without_steps_are_shown(fields, words):
    known = {"step": 0, "steps": 0, "metrics": {"loss": 0.1234}, "samples_per_second": None}
    script = job(progress=progress(**known | fields)).model_copy(update={"task": "script"})
    drawn = draw(Watched(script))
    assert "0.1234" in drawn
    assert words in drawn
    assert "0/0" not in drawn


def test_the_time_shown_is_that_in_which_the_job_ran():
    attempt = {"id": "att_1", "number": 1, "worker_id": "wrk_1"}
    first = {"started_at": NOW - timedelta(hours=3), "finished_at": NOW - timedelta(hours=2)}
    second = {"started_at": NOW - timedelta(minutes=5)}
    began = NOW - timedelta(hours=3)
    paused = job(started_at=began, attempts=[{**attempt, **first, "status": "paused"}])
    assert Watched(paused).elapsed_seconds(NOW) == 3600
    running = [*paused.attempts, {**attempt, **second, "status": "running"}]
    resumed = job(started_at=began, attempts=running)
    assert Watched(resumed).elapsed_seconds(NOW) == 3900


@pytest.mark.parametrize(
    ("epochs", "steps", "said"), [(20, 900, "3/20"), (0, 900, ""), (100, 100, "")]
)
def test_iterations_of_trees_are_not_shown_as_epochs(epochs, steps, said):
    found = Progress(epoch=3, epochs=epochs, step=3, steps=steps)
    assert epoch_words(found) == said
