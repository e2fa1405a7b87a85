import json

from redkiln.status import Phase


def test_excluded_time_belongs_to_no_phase(make_event_log, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("worker.process.event_log.time.perf_counter", lambda: now[0])
    event_log = make_event_log()
    event_log.enter(Phase.TRAINING)
    now[0] = 3.0
    with event_log.apart():
        now[0] = 10.0
    now[0] = 12.0
    assert event_log.settle() == {"training": 5.0}
    lines = (tmp_path / "events.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds == ["phase"]
