import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from redkiln.views.doctor import Diagnosis, DoctorReport
from redkiln.views.hardware import DoctorCheck
from redkiln.views.overview import SECTIONS, Overview
from service.attempts.models import Attempt
from service.overview import hub as hub_module
from service.overview import snapshot, sparklines
from service.overview.hub import OverviewHub
from service.overview.snapshot import first_line
from service.overview.sparklines import NUM_POINTS

AT = "2026-01-01T00:00:00Z"


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(hub_module, "REST_SECONDS", 0)
    monkeypatch.setattr(hub_module, "LOOK_SECONDS", 0.02)


@pytest.fixture
def overview(client):
    def overview():
        response = client.get("/v1/overview")
        assert response.status_code == 200, response.text
        return Overview.model_validate_json(response.content)

    return overview


@pytest.fixture
def listen(client):
    """Read events as (id, document) until `enough` of the documents; comments are None."""

    def listen(enough, *, act=lambda: None, **headers):
        found = []
        with client.stream("GET", "/v1/overview/events", headers=headers) as response:
            assert response.headers["Content-Type"].startswith("text/event-stream")
            frame = {}
            for line in response.iter_lines():
                if line.startswith(":"):
                    found.append((None, None))
                elif line:
                    name, _, value = line.partition(": ")
                    frame[name] = value
                    continue
                elif frame:
                    assert frame["event"] == "overview"
                    found.append((int(frame["id"]), json.loads(frame["data"])))
                    frame = {}
                else:
                    continue
                if len(found) == 1:
                    act()
                if enough(found):
                    return found
        raise AssertionError("the stream ended")

    return listen


def test_a_running_job_has_the_time_of_its_attempts_without_that_between_them(
    client, overview, submit, worker, services
):
    job_id = submit()["id"]
    worker.claim().fail()
    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = now - timedelta(hours=3), now - timedelta(hours=2)
    change = sa.update(Attempt).values(started_at=begin, finished_at=end)
    services.database.write(lambda session: session.execute(change))
    worker.claim()
    (job,) = overview().running
    assert (job.id, job.earlier_seconds) == (job_id, 3600)
    assert job.attempt_started_at >= now


def test_an_empty_installation_says_what_is_missing(overview):
    seen = overview()
    assert set(seen.counts.values()) == {0}
    assert (seen.running, seen.waiting, seen.ended, seen.gpus) == ([], [], [], [])
    assert (seen.health.is_ready, seen.health.num_live_workers) == (False, 0)
    assert seen.doctor.verdict == "blocked"
    assert seen.doctor.line.startswith("live workers: none")
    assert seen.doctor.fix
    assert seen.disk.total_bytes > 0


def test_jobs_are_where_they_belong(client, overview, submit, worker, monkeypatch):
    _, _, moved, queued, paused = (submit(name=name) for name in "drmqp")
    worker.claim().succeed()
    attempt = worker.claim()
    client.post(f"/v1/jobs/{paused['id']}/pause")
    client.post(f"/v1/jobs/{queued['id']}/move", json={"before": moved["id"]})
    seen = overview()
    assert [job.name for job in seen.running] == ["r"]
    assert [(job.name, job.queue_position) for job in seen.waiting] == [
        ("q", 1), ("m", 2), ("p", None),
    ]  # fmt: skip
    assert [job.name for job in seen.ended] == ["d"]
    assert {name: count for name, count in seen.counts.items() if count} == {
        "succeeded": 1, "running": 1, "queued": 2, "paused": 1,
    }  # fmt: skip
    assert (seen.running[0].worker_id, seen.running[0].hostname) == (worker.id, "bench")
    assert seen.health.is_ready
    monkeypatch.setattr(snapshot, "MOST_WAITING", 1)
    assert [job.name for job in overview().waiting] == ["q", "p"], "paused jobs have their place"
    attempt.finish("released")


def test_a_running_job_has_a_sparkline(overview, submit, worker, monkeypatch):
    submit()
    attempt = worker.claim()
    assert overview().running[0].sparkline is None
    points = {"train/loss": [[step, 1 / step] for step in range(1, 200)], "lr": [[1, 0.1]]}
    progress = {"step": 199, "steps": 400, "eta_seconds": 9.0, "metrics": {"train/loss": 0.005}}
    attempt.report(("metrics", {"points": points}), ("progress", progress))
    monkeypatch.setattr(sparklines, "REREAD_SECONDS", 0)
    (job,) = overview().running
    assert job.sparkline.name == "train/loss"
    assert NUM_POINTS / 2 < len(job.sparkline.steps) <= NUM_POINTS
    assert (job.sparkline.values[0], job.sparkline.steps[-1]) == (1.0, 199)
    assert job.progress.eta_seconds == 9.0


def test_a_stream_begins_with_everything_and_continues_with_what_changes(listen, submit):
    def merge(found):
        return {name: part for _, data in found if data for name, part in data.items()}

    def has_arrived(found):
        state = merge(found)
        return state["waiting"] and state["counts"]["queued"]

    events = listen(has_arrived, act=lambda: submit(name="new"))
    ids = [id_ for id_, _ in events if id_]
    assert ids == sorted(set(ids))
    assert set(events[0][1]) == {"seq", "at", *SECTIONS}
    assert [job["name"] for job in merge(events)["waiting"]] == ["new"]
    assert merge(events)["counts"]["queued"] == 1
    assert "ended" not in merge(events[1:])


def test_a_stream_resumes_with_what_has_changed_since(listen, submit):
    ((first, _),) = listen(lambda found: True)
    submit()
    ((second, data), *_) = listen(lambda found: "waiting" in found[-1][1],
                                  **{"Last-Event-ID": str(first)})  # fmt: skip
    assert second > first
    assert "ended" not in data


@pytest.mark.parametrize("last", ["0", str(2**62)])
def test_a_number_from_before_a_restart_gets_everything(listen, last):
    ((_, data),) = listen(lambda found: True, **{"Last-Event-ID": last})
    assert set(SECTIONS) <= set(data)


def test_a_quiet_stream_is_kept_alive(services, listen):
    services.settings.heartbeat_seconds = 0.05
    assert listen(lambda found: found[-1][0] is None)


def test_many_watchers_share_one_reader(services, monkeypatch):
    reads = []

    async def run():
        services.changes.start()
        hub = OverviewHub(services)
        read = hub._read
        monkeypatch.setattr(hub, "_read", lambda: reads.append(1) or read())
        streams = [hub.stream(after_seq=-1, heartbeat_seconds=30) for _ in range(50)]
        frames = await asyncio.gather(*(anext(stream) for stream in streams))
        for stream in streams:
            await stream.aclose()
        await hub.close()
        return frames

    frames = asyncio.run(run())
    assert len({frame.partition(b'"at"')[0] for frame in frames}) == 1
    assert len(reads) < 5


def check(title, severity, verdict="bad", fix="do it"):
    return DoctorCheck(id=title, row=1, title=title, verdict=verdict, severity=severity,
                       evidence="seen", cause="why", fix=fix)  # fmt: skip


@pytest.mark.parametrize(
    ("service", "worker", "expected"),
    [
        ([], [], (None, None, None)),
        ([check("a", "note")], [check("b", "blocks", "ok")], (None, None, None)),
        ([check("a", "slows")], [check("b", "blocks")], ("box", "b: seen (why)", "do it")),
        ([check("a", "slows", fix="")], [check("b", "slows")], ("here", "a: seen (why)", None)),
    ],
)
def test_the_doctors_first_line_is_what_blocks_jobs(service, worker, expected):
    report = {"at": AT, "versions": {}}
    diagnosis = Diagnosis(
        verdict="ok",
        service=DoctorReport(hostname="here", checks=service, **report),
        workers=[{"worker_id": "wrk_1", "hostname": "box",
                  "report": DoctorReport(hostname="box", checks=worker, **report)}],
    )  # fmt: skip
    line = first_line(diagnosis)
    assert (line.hostname, line.line, line.fix) == expected
