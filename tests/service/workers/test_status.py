"""The status of workers' hardware, as the API shows it."""

import pytest

from service.workers.rules import pair_exclusions

CARD = "0000:03:00.0"
INVENTORY = [
    {"index": 0, "name": "RX 7900 XTX", "arch": "gfx1100", "pci_address": CARD},
    {"index": 1, "name": "RX 6800", "arch": "gfx1030", "pci_address": "0000:0a:00.0"},
]
HOT = {"code": "self_test_failed", "message": "its matrix products are off by 3.1"}


def gpu_state(key=CARD, *, gfx="gfx1100", excluded=None, attempt_id=None, **telemetry):
    facts = {"gfx": gfx, "pci_address": key, "vram_bytes": 24 * 2**30}
    if telemetry:
        facts["telemetry"] = telemetry
    return {"key": key, "facts": facts, "excluded": excluded, "attempt_id": attempt_id}


@pytest.fixture
def gpu_worker(worker):
    worker.gpus = INVENTORY
    assert worker.hello().status_code == 200
    return worker


def tell(worker, *gpus, seq=1, **fields):
    body = {
        "worker_id": worker.id,
        "boot_id": worker.boot_id,
        "seq": seq,
        "gpus": list(gpus),
        **fields,
    }
    return worker.client.post("/v1/workers/status", json=body, headers=worker.headers)


def gpus_of(client, **filters):
    response = client.get("/v1/gpus", params=filters)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def test_a_gpu_is_listed_with_its_current_state(client, gpu_worker):
    answer = tell(gpu_worker, gpu_state(power_watts=212.5, busy_ratio=0.97))
    assert answer.json() == {"status_seconds": 5.0, "kept_free": []}
    (gpu,) = gpus_of(client)
    assert gpu["id"] == f"{gpu_worker.id}/{CARD}"
    assert (gpu["hostname"], gpu["facts"]["gfx"]) == ("bench", "gfx1100")
    assert (gpu["telemetry"]["power_watts"], gpu["telemetry"]["busy_ratio"]) == (212.5, 0.97)
    assert (gpu["excluded"], gpu["job_id"]) == (None, None)


def test_a_late_status_does_not_replace_a_newer_one(client, gpu_worker):
    tell(gpu_worker, gpu_state(power_watts=1.0), seq=1)
    tell(gpu_worker, gpu_state(power_watts=3.0), seq=3)
    for late in (1, 2, 3):
        assert tell(gpu_worker, gpu_state(power_watts=9.0), seq=late).status_code == 200
    assert gpus_of(client)[0]["telemetry"]["power_watts"] == 3.0


def test_a_previous_process_gets_superseded(client, gpu_worker):
    tell(gpu_worker, gpu_state(power_watts=1.0))
    former, gpu_worker.boot_id = gpu_worker.boot_id, "boot-2"
    gpu_worker.hello()
    body = {"worker_id": gpu_worker.id, "boot_id": former, "seq": 9, "gpus": []}
    refused = client.post("/v1/workers/status", json=body, headers=gpu_worker.headers)
    assert (refused.status_code, refused.json()["code"]) == (409, "superseded")


def test_the_status_of_a_previous_process_is_forgotten(client, gpu_worker):
    tell(gpu_worker, gpu_state(power_watts=1.0, excluded=HOT), seq=7)
    gpu_worker.boot_id = "boot-2"
    gpu_worker.hello()
    assert [gpu["telemetry"] for gpu in gpus_of(client)] == [None, None]
    assert tell(gpu_worker, gpu_state(power_watts=2.0), seq=1).status_code == 200
    assert gpus_of(client)[0]["telemetry"]["power_watts"] == 2.0


def test_an_unknown_worker_must_send_hello_first(client, worker):
    worker.id = "wrk_99999999"
    assert tell(worker).status_code == 409


def test_stale_telemetry_is_null(client, gpu_worker, settings):
    settings.status_seconds = 1e-6
    tell(gpu_worker, gpu_state(power_watts=212.5, excluded=HOT))
    (gpu,) = gpus_of(client)
    assert gpu["telemetry"] is None
    assert gpu["excluded"] == HOT


def test_an_invalid_status_does_not_break_hello(client, gpu_worker):
    assert tell(gpu_worker, {"key": 3}).status_code == 422
    assert gpu_worker.hello().status_code == 200
    assert len(gpus_of(client)) == 2


def test_gpus_are_listed_by_worker_and_by_architecture(client, gpu_worker, other_worker):
    tell(gpu_worker, gpu_state(), gpu_state("0000:0a:00.0", gfx="gfx1030"))
    tell(other_worker, gpu_state("0000:c3:00.0", gfx="gfx942"))
    assert len(gpus_of(client)) == 3
    assert len(gpus_of(client, worker=gpu_worker.id)) == 2
    assert [gpu["key"] for gpu in gpus_of(client, arch="gfx942")] == ["0000:c3:00.0"]


def test_a_worker_without_a_status_shows_what_torch_saw(client, gpu_worker):
    assert [gpu["facts"]["name"] for gpu in gpus_of(client)] == ["RX 7900 XTX", "RX 6800"]


def test_a_gpu_shows_its_job_while_it_runs(client, gpu_worker, submit):
    queued = submit()
    attempt = gpu_worker.claim(devices=["gpu"], arches=["gfx1100"])
    tell(gpu_worker, gpu_state(attempt_id=attempt.id))
    (gpu,) = gpus_of(client)
    assert (gpu["job_id"], gpu["attempt_id"]) == (queued["id"], attempt.id)
    attempt.fail(retryable=False)
    assert gpus_of(client)[0]["job_id"] is None


def test_an_excluded_gpu_does_not_count_for_jobs(client, gpu_worker):
    spec = {"dataset": "builtin:digits", "resources": {"device": "gpu", "arch": ["gfx1100"]}}
    assert client.post("/v1/jobs?dry_run=true", json=spec).status_code == 200
    tell(gpu_worker, gpu_state(excluded=HOT), gpu_state("0000:0a:00.0", gfx="gfx1030"))
    refused = client.post("/v1/jobs?dry_run=true", json=spec)
    assert refused.status_code == 422
    assert "gfx1030" in refused.json()["detail"]


def test_if_every_gpu_is_excluded_the_refusal_says_why(client, gpu_worker):
    tell(gpu_worker, gpu_state(excluded=HOT), gpu_state("0000:0a:00.0", excluded=HOT))
    spec = {"dataset": "builtin:digits", "resources": {"device": "gpu"}}
    refused = client.post("/v1/jobs?dry_run=true", json=spec)
    assert refused.status_code == 422
    assert HOT["message"] in refused.json()["detail"]


def test_a_worker_with_a_broken_gpu_does_not_train_on_its_cpu(
    client, gpu_worker, other_worker, submit
):
    tell(gpu_worker, gpu_state(excluded=HOT), gpu_state("0000:0a:00.0", excluded=HOT))
    submit(resources={"device": "any"})
    assert other_worker.ask(devices=["cpu"]).status_code == 204


def test_a_worker_shows_which_of_its_gpus_are_excluded(client, gpu_worker):
    tell(gpu_worker, gpu_state(excluded=HOT), gpu_state("0000:0a:00.0"))
    worker = client.get(f"/v1/workers/{gpu_worker.id}").json()
    assert [gpu["excluded"] for gpu in worker["gpus"]] == [HOT, None]
    assert client.get("/v1/workers").json()["data"][0]["gpus"] == worker["gpus"]
    assert client.get("/v1/workers/wrk_99999999").status_code == 404


def test_partitions_of_a_card_are_distinguished_by_their_order():
    gpus = [{"index": n, "pci_address": CARD} for n in range(3)]
    assert [why for _, why in pair_exclusions(gpus, {f"{CARD}-p1": HOT})] == [None, HOT, None]
    assert pair_exclusions([{"index": 4}], {"gpu-4": HOT}) == [({"index": 4}, HOT)]


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([], "ok"),
        ([("bad", "slows"), ("ok", "blocks")], "slow"),
        ([("bad", "slows"), ("bad", "blocks")], "blocked"),
        ([("bad", "note"), ("unknown", "blocks")], "ok"),
    ],
)
def test_a_worker_shows_its_doctors_verdict(client, worker, checks, verdict):
    listed = [
        {"id": f"c{row}", "row": row, "title": "t", "verdict": found, "severity": severity}
        for row, (found, severity) in enumerate(checks, 1)
    ]
    doctor = {"at": "2026-01-01T00:00:00Z", "hostname": "bench", "checks": listed}
    assert client.get(f"/v1/workers/{worker.id}").json()["doctor_verdict"] is None
    tell(worker, doctor=doctor)
    tell(worker, seq=2)  # without one the last one stays
    assert client.get(f"/v1/workers/{worker.id}").json()["doctor_verdict"] == verdict
