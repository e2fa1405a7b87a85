"""What prevents jobs from running, as the API reports it."""

from datetime import UTC, datetime, timedelta

from redkiln.views.doctor import Diagnosis

BLOCKED = {
    "id": "nodes_open",
    "row": 4,
    "title": "permission on the nodes",
    "verdict": "bad",
    "severity": "blocks",
    "evidence": "/dev/kfd: Permission denied",
    "cause": "this process is not in the group",
    "fix": 'group_add: ["992"]',
}


def report(*checks, at=None):
    at = at or datetime.now(UTC).isoformat()
    return {"at": at, "hostname": "station", "versions": {}, "checks": list(checks)}


def tell(worker, seq, **fields):
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": seq, "gpus": [], **fields}
    response = worker.client.post("/v1/workers/status", json=body, headers=worker.headers)
    assert response.status_code == 200, response.text


def diagnose(client):
    response = client.get("/v1/doctor")
    assert response.status_code == 200, response.text
    return Diagnosis.model_validate_json(response.content)


def checks_of(diagnosis):
    return {check.id: check for check in diagnosis.service.checks}


def test_a_service_without_workers_is_blocked_and_shows_how_to_start_one(client):
    diagnosis = diagnose(client)
    assert diagnosis.verdict == "blocked"
    assert diagnosis.workers == []
    first = diagnosis.service.checks[0]
    assert (first.id, first.verdict) == ("workers", "bad")
    assert "worker" in first.fix


def test_a_worker_without_a_status_is_listed_without_a_report(client, worker):
    (told,) = diagnose(client).workers
    assert (told.worker_id, told.hostname, told.report) == (worker.id, "bench", None)


def test_the_report_of_a_live_worker_is_passed_on_and_counts(client, worker):
    tell(worker, 1, doctor=report(BLOCKED))
    diagnosis = diagnose(client)
    (told,) = diagnosis.workers
    assert told.report.checks[0].fix == BLOCKED["fix"]
    assert diagnosis.verdict == "blocked"
    assert checks_of(diagnosis)["workers"].verdict == "ok"


def test_a_report_stays_until_the_next_one(client, worker):
    tell(worker, 1, doctor=report(BLOCKED))
    tell(worker, 2)
    assert diagnose(client).workers[0].report.is_blocked
    tell(worker, 3, doctor=report())
    assert not diagnose(client).workers[0].report.is_blocked


def test_the_report_of_a_previous_process_is_gone(client, worker):
    tell(worker, 1, doctor=report(BLOCKED))
    worker.boot_id = "boot-2"
    worker.hello()
    assert diagnose(client).workers[0].report is None


def test_a_clock_that_is_ahead_is_found(client, worker):
    ahead = (datetime.now(UTC) + timedelta(minutes=9)).isoformat()
    tell(worker, 1, doctor=report(at=ahead))
    clocks = checks_of(diagnose(client))["clocks"]
    assert clocks.verdict == "bad"
    assert "+5" in clocks.evidence


def test_parameters_are_refused(client):
    assert client.get("/v1/doctor", params={"x": 1}).status_code == 422


def test_the_self_tests_of_a_worker_are_listed(client, worker):
    address = f"/v1/workers/{worker.id}/self-tests"
    assert client.get(address).json()["data"] == []
    result = {
        "area": "gemm",
        "precision": "fp16",
        "library": "hipblaslt",
        "shape": "1024x1024x1024",
        "reduction_length": 1024,
        "max_rel_error": 0.001,
        "tolerance": 0.004,
        "verdict": "passed",
        "seconds": 0.01,
    }
    test = {
        "at": datetime.now(UTC).isoformat(),
        "device": "cuda:0",
        "gfx": "gfx1100",
        "pci_address": "0000:03:00.0",
        "status": "passed",
        "results": [result],
    }
    tell(worker, 1, doctor={**report(), "self_tests": [test]})
    (told,) = client.get(address).json()["data"]
    assert (told["pci_address"], told["status"]) == ("0000:03:00.0", "passed")
    (row,) = told["results"]
    assert {name: row[name] for name in result} == result
    assert client.get("/v1/workers/wrk_99999999/self-tests").status_code == 404
