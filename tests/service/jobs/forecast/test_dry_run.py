"""What a dry run says of time and memory."""

import pytest


def test_a_dry_run_estimates_from_a_similar_job(client, submit, worker):
    spec = {"dataset": "builtin:digits", "model": "amdnet"}
    first = client.post("/v1/jobs?dry_run=true", json=spec).json()
    assert first["estimates"] == []
    assert "no job with this model" in first["unknown"][0]

    submit(model="amdnet")
    attempt = worker.claim()
    resolved = {"model": {"name": "amdnet"}, "training": {"batch_size": 64}}
    timings = {"preparing": 1.0, "training": 8.0, "evaluating": 2.0, "exporting": 3.0}
    attempt.report(
        ("resolved", {"spec": resolved, "environment": {"cpu": "EPYC"}}),
        ("progress", {"step": 100, "steps": 100, "fraction": 1.0}),
        ("result", {"metrics": {}, "verified": True, "timings": timings}),
        telemetry={"host/memory_used_bytes": [[1000, 5e8], [2000, 7e8]]},
    )
    attempt.succeed()
    answer = client.post(
        "/v1/jobs?dry_run=true",
        json={**spec, "training": {"steps": 200, "batch_size": 64}},
    ).json()
    (item,) = answer["estimates"]
    assert (item["device"], item["memory_bytes"]) == ("EPYC", 700_000_000)
    assert item["seconds"] == pytest.approx(24.0)
    assert item["measured_by"] == attempt.job_id


def test_a_resumed_job_is_measured_too(client, submit, worker):
    submit(model="amdnet")
    first = worker.claim()
    first.checkpoint(60)
    client.post(f"/v1/jobs/{first.job_id}/pause")
    first.finish("paused")
    client.post(f"/v1/jobs/{first.job_id}/resume")
    second = worker.claim()
    timings = {"preparing": 2.0, "training": 8.0, "exporting": 3.0}
    second.report(
        ("resolved", {"spec": {"model": {"name": "amdnet"}, "training": {"batch_size": 64}}}),
        ("progress", {"step": 100, "steps": 100, "fraction": 1.0}),
        ("result", {"metrics": {}, "verified": True, "timings": timings}),
    )
    second.succeed()
    spec = {"dataset": "builtin:digits", "model": "amdnet", "training": {"steps": 200}}
    answer = client.post("/v1/jobs?dry_run=true", json=spec).json()
    assert [item["measured_by"] for item in answer["estimates"]] == [first.job_id]
