"""A worker with one GPU, played by the test, and a job that it ran: with results, at once."""

import io
import json
import re
from datetime import UTC, datetime

import httpx
from PIL import Image
from playwright.sync_api import expect

from tests.service.conftest import Worker

CARD = "0000:03:00.0"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">"
CLASSES = [f"cat{HOSTILE}", f"dog{HOSTILE}"]
NUM_STEPS = 6000
BASELINES = [
    {"name": "majority class", "metrics": {"test/accuracy": 0.25}},
    {
        "name": "linear model",
        "metrics": {"test/accuracy": 0.75, "test/auc": 0.8125},
        "note": "trained on 2 samples",
    },
    {"name": "trees", "note": f"failed, see trainer.log: MemoryError {HOSTILE}"},
]
STANDING = {
    "intervals": {"test/accuracy": [0.15, 0.85]},
    "comparison": {
        "metric": "test/accuracy", "value": 0.5, "interval": [0.15, 0.85], "baselines": BASELINES,
        "best": "linear model", "verdict": "equal", "beats_constant": False,
        "num_different": 3, "num_test": 26,
    },
    "copies": {"noun": "images", "num_test": 26, "num_copies": 1, "num_repeated": 12},
    "threshold": {"class_name": "dog", "probability": 0.2, "validation_f1": 0.7, "test_f1": 0.6,
                  "test_f1_at_half": 0.4, "decisions": [{"probability": 0.2, "found": 4,
                                                         "missed": 2, "false_alarms": 1}]},
    "cross_validation": {
        "folds": [{"auc": 0.9, "accuracy": 0.5}, {"accuracy": 0.7, "auc": 0.8}, {"accuracy": 0.9}],
        "comparison": {
            "metric": "accuracy", "value": 0.7, "interval": [0.6, 0.8], "best": "linear model",
            "baselines": [{"name": "majority class", "metrics": {"accuracy": 0.25}},
                          {"name": "linear model", "metrics": {"accuracy": 0.65}}],
            "verdict": "equal", "beats_constant": True, "num_different": 9, "num_test": 78,
        },
    },
}  # fmt: skip
"""How good the result is: with its uncertainty, next to baselines, with a threshold."""


def join(site, client):
    """A worker whose one GPU reports no sensors; it never asks for work by itself."""
    key = (site.stack.state_dir / "keys" / "worker.key").read_text().strip()
    gpu = {"index": 0, "name": f"RX 7900 XTX {HOSTILE}", "arch": "gfx1100", "pci_address": CARD}
    worker = Worker(client, key, id="wrk_0000000a", gpus=[gpu])
    greet(worker)
    return worker


def greet(worker):
    """Be live again: the service forgets a worker that is silent for long."""
    card = {"engine": "tinygrad", "name": "RX 580", "device": "CL:1", "slots": [1]}
    hello = worker.hello(hostname=f"bench {HOSTILE}", engine_devices=[card])
    assert hello.status_code == 200, hello.text


def tell(worker, seq, **state):
    """Report the state of the GPU."""
    facts = {"gfx": "gfx1100", "name": worker.gpus[0]["name"], "pci_address": CARD}
    gpu = {"key": CARD, "facts": facts, **state}
    body = {"worker_id": worker.id, "boot_id": worker.boot_id, "seq": seq, "gpus": [gpu]}
    answer = worker.client.post("/v1/workers/status", json=body, headers=worker.headers)
    assert answer.status_code == 200, answer.text


FIX = "sudo usermod -aG render $USER"
WRONG = {"area": "gemm", "precision": "fp16", "shape": "64x64x64", "reduction_length": 64,
         "max_rel_error": None, "tolerance": 0.004, "verdict": "failed",
         "seconds": 0.01}  # fmt: skip


def doctor(**texts):
    """A report with a finding, and a self-test in which one of two results is wrong.

    Args:
        texts: Other texts of the finding; its cause is also that of the self-test.
    """
    right = {**WRONG, "precision": "fp32", "max_rel_error": 1e-6, "verdict": "passed"}
    test = {"at": datetime.now(UTC).isoformat(), "device": "cuda:0", "pci_address": CARD,
            "name": "RX 7900 XTX", "status": "failed",
            "cause": texts.get("cause", "a product is wrong"),
            "results": [right, WRONG]}  # fmt: skip
    check = {
        "id": "render-group",
        "title": "The user may open the GPU",
        "verdict": "bad",
        "severity": "blocks",
        "row": 4,
        "cause": "The user is not in the group render.",
        "fix": FIX,
        **texts,
    }
    return {"at": datetime.now(UTC).isoformat(), "hostname": "bench",
            "checks": [check], "self_tests": [test]}  # fmt: skip


def make_job(site, worker):
    """The id of a job with 6,000 points, two previews, and results by class."""
    greet(worker)
    job_id = site.submit(name="made", metadata={"note": HOSTILE}, resources={"device": "gpu"})
    attempt = worker.claim()
    assert attempt.job_id == job_id
    points = {"train/loss": [[step, 100 / (step + 1)] for step in range(NUM_STEPS)]}
    more = ("lr", "samples_per_second", f"val/accuracy {HOSTILE}")
    points |= {name: [[1, 1.0], [100, 2.0]] for name in more}
    metrics = {"test/accuracy": 0.5, "test/accuracy_onnx": 0.5, "test/auc": 0.5625}
    patch = {"name": "no-flash-attention", "outcome": "applied", "why": HOSTILE}
    resolved = {"spec": site.client.job(job_id).spec,
                "environment": {"patches": [patch], "torch": HOSTILE, "gpu": HOSTILE}}  # fmt: skip
    events = [
        ("phase", {"phase": "training"}),
        ("resolved", resolved),
        ("message", {"text": HOSTILE, "level": "info"}),
        ("metrics", {"points": points}),
        ("progress", {"step": NUM_STEPS, "steps": NUM_STEPS, "epoch": 6, "epochs": 6}),
        (
            "result",
            {
                "metrics": metrics,
                "headline": "test/accuracy",
                "verified": True,
                "timings": {"training": 10.0, "exporting": 2.0},
                **STANDING,
            },
        ),
    ]
    sensors = {"host/cpu_ratio": [[1000, 0.5]], f"gpu/{HOSTILE}_watts": [[1000, 200], [2000, 210]]}
    log = (0, f"said {HOSTILE}\n".encode())
    answer = attempt.report(*events, log=log, telemetry=sensors)
    assert answer.status_code == 200, answer.text
    for step in (30, 60):
        put_preview(attempt, step)
    artifacts = [publish(attempt, *file) for file in FILES]
    end(attempt, artifacts)
    return job_id


def make_model(site, worker, files, *, name="model", metric="test/accuracy", **result):
    """The id of a job that published files, each a name, a kind and its content, with a result."""
    greet(worker)
    job_id = site.submit(name=name, resources={"device": "gpu"})
    attempt = worker.claim()
    assert attempt.job_id == job_id
    attempt.report(("result", {"metrics": {metric: 1.0}, "verified": True, **result}))
    media_type = "application/octet-stream"
    end(attempt, [publish(attempt, name, kind, media_type, data) for name, kind, data in files])
    return job_id


NUM_MANY = 30
EFFICIENCY = {
    "facts": {"device": "cuda", "precision": "bf16", "batch_size": 64, "num_steps": 100,
              "seconds": {"start": 2.0, "steps": 6.0, "data": 2.0, "profile": 0.0},
              "bare_step_seconds": 0.05, "why_not_bare": None, "flops_per_step": None,
              "peak_tflops": None, "why_no_peak": "this card is not known"},
    "samples_per_second": 800.0, "bare_share": 0.625, "tflops": None, "peak_share": None,
    "bound_by": "data", "verdict": "steps waited for their batches 25% of the time",
    "changes": [{"setting": "REDKILN_THREADS", "why": f"more CPU threads {HOSTILE}"}],
}  # fmt: skip


def make_many(site, worker):
    """The id of a job with 30 classes, of which class 1 is often taken for class 2."""
    names = [f"class {number}" for number in range(NUM_MANY)]
    right = [{"true": name, "predicted": name, "num": 9} for name in names]
    wrong = [{"true": names[1], "predicted": names[2], "num": 5},
             {"true": names[4], "predicted": names[3], "num": 2}]  # fmt: skip
    per_class = [{"name": name, "num": 9, "precision": 1, "recall": 1, "f1": 1} for name in names]
    mistakes = [
        {"sample": i, "true": cell["true"], "predicted": cell["predicted"], "confidence": 0.9,
         "true_confidence": 0.1, "text": f"row {i}"}
        for i, cell in enumerate(wrong)
    ]  # fmt: skip
    content = {"noun": "rows", "classes": names, "num_samples": 277, "num_mistakes": 7,
               "num_listed": 2, "per_class": per_class, "confused": [*wrong[::-1], *right],
               "mistakes": mistakes}  # fmt: skip
    return make_model(site, worker, [
        ("evaluation.json", "file", json.dumps(content).encode()),
        ("manifest.json", "manifest", json.dumps({"efficiency": EFFICIENCY}).encode()),
    ])  # fmt: skip


def end(attempt, artifacts):
    finished = attempt.finish("succeeded", artifacts=artifacts)
    assert finished.status_code == 200, finished.text


def put_preview(attempt, step):
    answer = attempt.client.put(
        f"/v1/attempts/{attempt.id}/preview",
        params={"step": step, "media_type": "image/png"},
        content=picture(step),
        headers={**attempt.headers, "Content-Type": "application/octet-stream"},
    )
    assert answer.status_code == 204, answer.text


def publish(attempt, name, kind, media_type, content):
    sha256, size_bytes = attempt.upload(content), len(content)
    return {"name": name, "kind": kind, "media_type": media_type, "sha256": sha256,
            "size_bytes": size_bytes}  # fmt: skip


def picture(seed):
    content = io.BytesIO()
    Image.new("RGB", (192, 96), (seed % 256, 90, 30)).save(content, "PNG")
    return content.getvalue()


def evaluation():
    """Two classes of two samples each, and one mistake in either direction."""
    per_class = [{"name": name, "num": 2, "precision": 0.5, "recall": 0.5, "f1": 0.5}
                 for name in CLASSES]  # fmt: skip
    pairs = [(CLASSES[0], CLASSES[1]), (CLASSES[1], CLASSES[0])]
    mistakes = [
        {"sample": i, "true": true, "predicted": predicted, "confidence": 0.9 - i / 10,
         "true_confidence": 0.1, "text": f"{true}/{i}.png", "tile": i}
        for i, (true, predicted) in enumerate(pairs)
    ]  # fmt: skip
    confused = [{"true": t, "predicted": p, "num": 1} for t in CLASSES for p in CLASSES]
    return {"noun": "images", "classes": CLASSES, "num_samples": 4, "num_mistakes": 2,
            "num_listed": 2, "per_class": per_class, "confused": confused, "mistakes": mistakes,
            "tiles": {"name": "mistakes.png", "columns": 2, "side": 96}}  # fmt: skip


FILES = [
    ("model.onnx", "model", "application/onnx", b"onnx"),
    ("checkpoint.safetensors", "checkpoint", "application/octet-stream", b"weights"),
    ("evaluation.json", "file", "application/json", json.dumps(evaluation()).encode()),
    ("mistakes.png", "figure", "image/png", picture(200)),
]


def client_of(site):
    return httpx.Client(base_url=site.stack.url, timeout=20)


def hide(page, *, is_hidden=True):
    """Tell a page that its tab is hidden; a headless browser never does."""
    page.evaluate(
        """(isHidden) => {
          Object.defineProperty(document, 'hidden', { value: isHidden, configurable: true })
          document.dispatchEvent(new Event('visibilitychange'))
        }""",
        is_hidden,
    )


def expect_parity(page):
    """Compare the shown model with its samples in the browser; they must be alike."""
    page.get_by_role("button", name="Compare with the trained model").click()
    verdict = page.get_by_text("Largest difference from the trained model")
    expect(verdict).to_be_visible()
    assert float(re.search(r"(\S+)$", verdict.inner_text())[1]) <= 1e-4
