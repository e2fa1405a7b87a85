"""The newest benchmark of a worker, as the API shows it."""

import json

RESULT = {
    "at": "2026-11-24T00:00:00Z",
    "seconds": 3.0,
    "machine": {"hostname": "bench", "kind": "gpu", "device": "RX 7900 XTX", "gfx": "gfx1100",
                "cpu": "a processor", "num_cores": 2, "num_threads": 2},
    "measurements": [
        {"id": "matmul/4096/fp16", "test": "matmul", "title": "matrix product 4096, fp16",
         "unit": "TFLOP/s", "precision": "fp16", "size": 4096, "peak": 122.8, "flop_per_byte": 1365,
         "rate": {"value": 81.2, "spread": 0.02, "num_samples": 12}},
        {"id": "memory/triad", "test": "memory", "title": "triad", "unit": "GB/s", "peak": 960,
         "rate": {"value": 812, "spread": 0.01, "num_samples": 12}},
    ],
}  # fmt: skip


def measure(client, worker, data):
    job_id = client.post("/v1/jobs", json={"task": "benchmark"}).json()["id"]
    attempt = worker.claim()
    file = {"kind": "file", "name": "benchmark.json", "media_type": "application/json",
            "sha256": attempt.upload(data), "size_bytes": len(data)}  # fmt: skip
    assert attempt.finish("succeeded", artifacts=[file]).status_code == 200
    return job_id


def show(client, worker_id):
    return client.get(f"/v1/workers/{worker_id}/benchmark")


def test_the_newest_benchmark_of_a_worker_is_returned_with_its_peaks(client, worker):
    worker.hello()
    missing = show(client, worker.id)
    assert (missing.status_code, missing.json()["code"]) == (404, "no_benchmark")
    assert "redkiln bench" in missing.json()["detail"]
    measure(client, worker, json.dumps({**RESULT, "seconds": 1.0}).encode())
    job_id = measure(client, worker, json.dumps(RESULT).encode())
    told = show(client, worker.id).json()
    assert (told["job_id"], told["result"]["seconds"]) == (job_id, 3.0)
    product, triad = told["result"]["measurements"]
    assert (product["rate"]["value"], product["peak"], product["unit"]) == (81.2, 122.8, "TFLOP/s")
    assert (triad["rate"]["value"], triad["peak"], triad["unit"]) == (812, 960, "GB/s")
    assert (product["flop_per_byte"], triad["flop_per_byte"]) == (1365, None)


def test_only_benchmark_files_are_passed_on(client, worker):
    worker.hello()
    measure(client, worker, b'{"a": 1}')
    assert show(client, worker.id).json()["code"] == "no_benchmark"
    assert show(client, "wrk_99999999").status_code == 404
