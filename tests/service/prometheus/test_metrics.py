"""The metrics for Prometheus, read with the parser of Prometheus' own client."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from redkiln.tls import tls_for
from service.app import create_app
from service.prometheus.state import Cached

CARD = "0000:03:00.0"
HOT = {"code": "self_test_failed", "message": "its matrix products are off by 3.1"}


@pytest.fixture
def scrape(client):
    def scrape():
        response = client.get("/metrics")
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(response.text)
            for sample in family.samples
        }

    return scrape


def tell(worker, *gpus):
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": 1, "gpus": list(gpus)}
    answer = worker.client.post("/v1/workers/status", json=body, headers=worker.headers)
    assert answer.status_code == 200


def test_requests_are_counted_by_route_not_by_path(client, scrape, submit):
    ids = [submit()["id"] for _ in range(3)]
    for job_id in ids:
        client.get(f"/v1/jobs/{job_id}")
    client.get("/v1/jobs/job_0000000000000000000000")
    client.get("/no/such/page")
    samples = scrape()
    requests = {
        (labels["route"], labels["status"]): value
        for (name, *pairs), value in samples.items()
        if name == "redkiln_http_requests_total" and (labels := dict(pairs))["method"] == "GET"
    }
    assert requests == {
        ("/v1/jobs/{job_id}", "200"): 3,
        ("/v1/jobs/{job_id}", "404"): 1,
        ("unmatched", "404"): 1,
    }
    count = "redkiln_http_request_duration_seconds_count"
    assert samples[count, ("method", "GET"), ("route", "/v1/jobs/{job_id}")] == 4
    assert not any(job_id in str(key) for key in samples for job_id in ids)


def test_an_unknown_method_gets_no_separate_label(client, scrape):
    client.request("PROPFIND", "/v1/jobs")
    labels = {dict(pairs).get("method") for _, *pairs in scrape()}
    assert "PROPFIND" not in labels
    assert "other" in labels


def test_jobs_queue_and_workers_are_counted(scrape, submit, worker, other_worker):
    submit()
    submit()
    worker.claim()
    samples = scrape()
    assert samples["redkiln_jobs", ("status", "queued")] == 1
    assert samples["redkiln_jobs", ("status", "running")] == 1
    assert samples["redkiln_jobs", ("status", "failed")] == 0
    assert samples["redkiln_queue_depth",] == 1
    assert 0 <= samples["redkiln_queue_oldest_seconds",] < 60
    assert samples["redkiln_workers", ("state", "live")] == 2
    assert samples["redkiln_workers", ("state", "away")] == 0
    assert samples["redkiln_database_up",] == 1
    assert samples["redkiln_broker_up",] == 0


def test_gpu_metrics_use_base_units(scrape, worker):
    telemetry = {"busy_ratio": 0.97, "vram_used_bytes": 2**30, "edge_celsius": 61.0}
    facts = {"gfx": "gfx1100", "telemetry": telemetry}
    tell(worker, {"key": CARD, "facts": facts, "excluded": HOT})
    samples = scrape()
    gpu = (("gpu", CARD), ("host", "bench"))
    of = ("worker", worker.id)
    assert samples["redkiln_gpu_busy_ratio", *gpu, of] == 0.97
    assert samples["redkiln_gpu_memory_used_bytes", *gpu, ("kind", "vram"), of] == 2**30
    assert samples["redkiln_gpu_temperature_celsius", *gpu, ("sensor", "edge"), of] == 61
    assert samples["redkiln_gpu_excluded", ("code", "self_test_failed"), *gpu, of] == 1
    assert samples["redkiln_gpu_leased", *gpu, of] == 0
    assert not any(name == "redkiln_gpu_power_watts" for name, *_ in samples)


def test_stored_bytes_are_summed_by_kind(scrape, submit, worker):
    submit()
    attempt = worker.claim()
    attempt.checkpoint(1, data=b"x" * 1000)
    samples = scrape()
    assert samples["redkiln_stored_bytes", ("kind", "checkpoints")] == 1000
    assert samples["redkiln_stored_bytes", ("kind", "artifacts")] == 0
    assert samples["redkiln_state_free_bytes",] > 0


def test_metrics_need_a_user_key_if_keys_are_required(settings, serve):
    settings.auth = "keys"
    url, _ = serve(create_app(settings))
    admin, worker = (
        (settings.keys_dir / f"{n}.key").read_text().strip() for n in ("admin", "worker")
    )
    with httpx.Client(base_url=url, verify=tls_for(url)) as client:
        assert client.get("/metrics").status_code == 401
        of = {key: {"Authorization": f"Bearer {key}"} for key in (admin, worker)}
        assert client.get("/metrics", headers=of[worker]).status_code == 403
        assert client.get("/metrics", headers=of[admin]).status_code == 200


def test_frequent_scrapes_query_the_database_rarely():
    now, made = [0.0], []
    cached = Cached(lambda: made.append(now[0]) or now[0], seconds=5.0, clock=lambda: now[0])
    for now[0] in (0.0, 1.0, 4.9, 5.0, 9.9):
        cached.get()
    assert made == [0.0, 5.0]
