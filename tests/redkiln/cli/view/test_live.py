import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from redkiln.cli.view.live import JsonScreen, LineScreen, PanelScreen, screen_for, watch_job
from redkiln.cli.view.watched import Watched
from redkiln.client.watching import Snapshot
from redkiln.views.job import EventView, JobView

JOB_ID = "job_0123456789abcdefghijkl"
NOW = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def screen():
    """A screen of lines with what it printed, and a job that it shows."""
    clock, stream = Clock(), io.StringIO()
    lines = LineScreen(Console(file=stream, width=200), clock=clock)
    job = JobView(
        id=JOB_ID,
        name="flowers",
        task="image-classification",
        status="running",
        is_terminal=False,
        spec={},
        dataset_id="ds_1",
        created_at=NOW,
    )
    watched = Watched(job, clock=clock)
    seqs = iter(range(1, 1000))

    def event(kind, **data):
        update = EventView(seq=next(seqs), at=NOW, kind=kind, data=data)
        lines.show(update, watched.apply(update))

    def step(number, epoch, **state):
        progress = {"epoch": epoch, "epochs": 9, "step": number, "steps": 90}
        progress["fraction"] = number / 90
        update = Snapshot(**{"status": "running", "progress": progress, **state})
        lines.show(update, watched.apply(update))

    with lines.open(watched):
        yield event, step, clock, lambda: stream.getvalue().splitlines()[1:]


def test_each_phase_is_printed_once_an_attempt(screen):
    event, _, _, printed = screen
    event("started", number=1)
    for phase in ("training", "evaluating", "training", "evaluating"):
        event("phase", phase=phase)
    event("started", number=2)
    event("phase", phase="training")
    assert printed() == [
        "attempt 1 started",
        "training",
        "evaluating",
        "attempt 2 started",
        "training",
    ]


def test_checkpoints_are_not_printed(screen):
    event, _, _, printed = screen
    event("checkpoint", step=1)
    event("committed", step=1)
    assert printed() == []


def test_progress_is_printed_every_few_percent_or_seconds(screen):
    _, step, clock, printed = screen
    for number in range(1, 13):
        step(number, number)
    clock.now = 6
    step(13, 13)
    clock.now = 20
    step(13, 13)
    assert [line.split(", ")[2] for line in printed()] == ["step 5/90", "step 10/90", "step 13/90"]


def test_progress_is_printed_again_after_a_step_back(screen):
    _, step, _, printed = screen
    step(30, 3)
    step(5, 1)
    assert [line.split(", ")[2] for line in printed()] == ["step 30/90", "step 5/90"]


def test_the_last_progress_is_printed_before_the_export_and_none_after_it(screen):
    event, step, clock, printed = screen
    step(87, 9, phase="training")
    event("phase", phase="exporting")
    event("warning", message="look out")
    step(90, 9, phase="exporting")
    clock.now = 60
    event("phase", phase="verifying")
    step(90, 9, phase="verifying")
    event("succeeded")
    step(90, 9, status="succeeded")
    assert [line.split(", ")[0].strip() for line in printed()] == [
        "97 %", "100 %", "exporting", "warning: look out", "verifying",
    ]  # fmt: skip


def test_the_last_progress_is_printed_before_a_failure_and_none_after_it(screen):
    event, step, _, printed = screen
    event("failure", message="it broke")
    event("failed")
    step(30, 3, status="failed")
    step(40, 3, status="failed")
    words = [line.split(", ")[0].strip() for line in printed()]
    assert words == ["33 %", "attempt failed: it broke"]


def test_two_attempts_that_are_read_at_once_keep_their_order(screen):
    event, step, _, printed = screen
    event("started", number=1)
    event("phase", phase="exporting")
    event("started", number=2)
    event("phase", phase="exporting")
    step(90, 9, phase="exporting")
    assert [line.split(", ")[0].strip() for line in printed()] == [
        "attempt 1 started", "100 %", "exporting", "attempt 2 started", "exporting",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "term", "kind"),
    [
        ({"force_terminal": True}, "xterm", PanelScreen),
        ({"force_terminal": True}, "dumb", LineScreen),
        ({"force_terminal": False}, "xterm", LineScreen),
    ],
)
def test_only_a_capable_terminal_gets_a_panel(monkeypatch, options, term, kind):
    monkeypatch.setenv("TERM", term)
    assert isinstance(screen_for(Console(file=io.StringIO(), **options)), kind)


def test_the_panel_disappears_when_the_job_has_ended(client):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)
    assert watch_job(client, JOB_ID, console).status == "succeeded"
    assert "flowers" in stream.getvalue()
    assert stream.getvalue().rstrip().endswith("\x1b[2K")


def test_the_result_is_awaited_if_the_service_restarts_at_the_end(fake, client, monkeypatch):
    monkeypatch.setattr("redkiln.client.watching.RECONNECT_SECONDS", (0.01,))
    stream = io.StringIO()
    watch = client.watch

    def watch_then_fail(job_id):
        yield from watch(job_id)
        fake.failures = [(503, {})] * 6

    monkeypatch.setattr(client, "watch", watch_then_fail)
    assert watch_job(client, JOB_ID, Console(file=stream)).status == "succeeded"
    assert "connection lost" in stream.getvalue()


def test_a_queued_job_is_polled_until_it_runs(fake, client, monkeypatch):
    monkeypatch.setattr("redkiln.cli.view.live.QUEUE_POLL_SECONDS", (0.001,))
    fake.status = "queued"
    fake.reason = {"code": "waiting", "message": "waits for a worker"}
    asked = client.job

    def ask(job_id):
        if sum(path == f"/v1/jobs/{JOB_ID}" for _, path, _ in fake.requests) == 5:
            fake.status = "succeeded"
        return asked(job_id)

    monkeypatch.setattr(client, "job", ask)
    stream = io.StringIO()
    assert watch_job(client, JOB_ID, Console(file=stream)).status == "succeeded"
    assert stream.getvalue().count("queued: waits for a worker") == 1


def test_json_prints_the_job_at_its_start_and_end(capsys, client):
    watch = JsonScreen()
    job = client.job(JOB_ID)
    with watch.open(Watched(job)):
        watch.show(None, [])
    assert len(capsys.readouterr().out.splitlines()) == 2
