"""The HTTP side of a made service, route by route."""

import contextlib
import hashlib
import json

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec, task_schema
from tests.redkiln.fake_admin import build_audit_routes, build_key_routes
from tests.redkiln.fake_answers import page, problem
from tests.redkiln.fake_bulk import build_bulk_routes
from tests.redkiln.fake_service import JOB_ID, MODEL, STARTED_AT, dataset
from tests.redkiln.fake_storage import build_storage_routes


def build_app(fake):
    def job_or_404(handler):
        async def handle(request):
            if request.path_params["job_id"] not in fake.job_names:
                return problem(404, "not_found", "there is no such job")
            return await handler(request)

        return handle

    async def submit(request):
        spec = await request.json()
        try:
            parsed = parse_spec(spec, default_task="image-classification")
        except SpecError as error:
            entries = [vars(item) for item in error.problems]
            return problem(422, "invalid_spec", str(error), entries)
        if request.query_params.get("dry_run"):
            estimates = {"estimates": fake.estimates, "unknown": ["memory: it was not measured"]}
            spec = parsed.model_dump(mode="json")
            return JSONResponse({"spec": spec, "warnings": [], **estimates})
        fake.submitted.append((spec, request.headers.get("idempotency-key")))
        return JSONResponse(fake.view(), 202)

    async def jobs(request):
        fake.asked_jobs.append(dict(request.query_params))
        key = request.query_params.get("sort", "").removeprefix("-")
        if "/" in key and key not in fake.results:
            return page([])
        return page([fake.summary(job_id) for job_id in fake.job_names])

    async def models(request):
        created = {"newest_version": 3, "num_versions": 3, "created_at": "2026-11-21T09:00:00Z"}
        return page([
            {"id": name, "name": name, "aliases": aliases, **created}
            for name, aliases in fake.models.items()
        ])  # fmt: skip

    async def job(request):
        return JSONResponse(fake.view(request.path_params["job_id"]))

    async def cancel(request):
        if fake.status != "running":
            return problem(409, f"job_{fake.status}", f"a job that is {fake.status} stays so")
        fake.status = "cancelled"
        return JSONResponse(fake.view())

    async def steer(request):
        verb = request.url.path.rpartition("/")[2]
        fake.steered.append((verb, json.loads(await request.body() or b"{}")))
        fake.status = {"pause": "paused"}.get(verb, "queued")
        return JSONResponse(fake.view())

    async def set_priority(request):
        priority = (await request.json())["priority"]
        fake.status = "queued"
        return JSONResponse({**fake.view(), "priority": priority, "queue_position": 2})

    async def move(request):
        fake.steered.append(("move", await request.json()))
        fake.status = "queued"
        return JSONResponse({**fake.view(), "priority": 3, "queue_position": 1})

    async def checkpoints(request):
        return page(
            [
                {
                    "step": step,
                    "is_best": step == 60,
                    "size_bytes": 2**20,
                    "metrics": {"val/loss": 0.25},
                    "created_at": STARTED_AT.isoformat(),
                }
                for step in (90, 60)
            ]
        )

    async def delete(request):
        del fake.job_names[request.path_params["job_id"]]
        return Response(status_code=204)

    async def events(request):
        listed = [
            {"seq": i, "at": STARTED_AT.isoformat(), "kind": kind, "data": data}
            for i, (kind, data) in enumerate(fake.events, 1)
        ]
        if "text/event-stream" not in request.headers.get("accept", ""):
            after = int(request.query_params.get("after_seq", 0))
            return page([item for item in listed if item["seq"] > after])
        after = int(request.headers.get("last-event-id", 0))
        limit = fake.cut_after.pop(0) if fake.cut_after else None

        async def stream():
            yield b": hello\n\n"
            for sent, item in enumerate(item for item in listed if item["seq"] > after):
                if sent == limit:
                    yield b"id: 99\nevent: message\ndata: {half"
                    raise ConnectionResetError
                text = json.dumps(item, ensure_ascii=False)
                yield f"id: {item['seq']}\nevent: {item['kind']}\ndata: {text}\n\n".encode()
                yield f"event: progress\ndata: {json.dumps(fake.summary())}\n\n".encode()
            yield f"event: end\ndata: {json.dumps(fake.summary())}\n\n".encode()

        return StreamingResponse(stream(), media_type="text/event-stream")

    async def logs(request):
        offset = int(request.query_params.get("offset", 0))
        tail = request.query_params.get("tail")
        content = fake.log[offset:]
        if tail is not None:
            content = b"".join(fake.log.splitlines(keepends=True)[-int(tail) :])
        headers = {"Redkiln-Log-Size": str(len(fake.log)), "Redkiln-Attempt": "att_1"}
        return Response(content, headers=headers, media_type="text/plain")

    async def preview(request):
        if fake.preview is None:
            return problem(404, "no_preview", "the job has no sample predictions yet")
        media_type, step, content = fake.preview
        headers = {"ETag": f'"step-{step}"', "Redkiln-Step": str(step)}
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=media_type)

    async def metrics(request):
        series = {
            "name": "train/loss",
            "steps": [1, 2, 3],
            "values": [2.0, 1.0, 0.5],
            "num_points": 3,
            "downsampled": False,
        }
        return JSONResponse({"series": [series] if fake.metrics else []})

    async def telemetry(request):
        watts = {
            "name": "gpu/0/power_watts",
            "at_ms": [1000, 2000],
            "values": [200.0, 312.0],
            "num_points": 2,
            "downsampled": False,
        }
        after_ms = int(request.query_params.get("after_ms", 0))
        return JSONResponse({"series": [watts] if after_ms < 2000 else []})

    async def gpus(request):
        facts = {"name": "Radeon RX 7900 XTX", "gfx": "gfx1100", "vram_bytes": 24 * 2**30}
        gpu = {
            "id": "wrk_1/0000:03:00.0",
            "worker_id": "wrk_1",
            "hostname": "box",
            "key": "0000:03:00.0",
            "facts": facts,
            "telemetry": {"busy_ratio": 0.98, "power_watts": 312.0},
            "job_id": JOB_ID,
        }
        wanted = request.query_params.get("arch", "gfx1100")
        return page([gpu] if wanted == "gfx1100" else [])

    async def free(request):
        hold = None
        if request.method == "POST":
            fake.steered.append(("free", request.path_params["key"]))
            status = "freeing" if len(fake.steered) < 3 else "free"
            hold = {"status": status, "asked_at": STARTED_AT.isoformat(), "expected_seconds": 4}
        else:
            fake.steered.append(("give-back", request.path_params["key"]))
        key = request.path_params["key"]
        gpu = {"id": f"wrk_1/{key}", "worker_id": "wrk_1", "hostname": "box", "key": key}
        return JSONResponse({**gpu, "facts": {}, "hold": hold})

    async def doctor(request):
        return JSONResponse(fake.diagnosis)

    async def artifacts(request):
        return page(fake.artifacts())

    async def content(request):
        item = next(a for a in fake.artifacts() if a["id"] == request.path_params["artifact_id"])
        made = {"model.onnx": MODEL, "report.md": b"# Report\n"}
        body = fake.files[item["name"]][1] if fake.files else made[item["name"]]
        if fake.corrupt:
            body = b"X" + body[1:]
        start, status = 0, 200
        wanted = request.headers.get("range")
        if wanted and request.headers.get("if-range") == f'"sha256-{item["sha256"]}"':
            start, status = int(wanted.removeprefix("bytes=").rstrip("-")), 206
        cut = fake.cut_downloads.pop(0) if fake.cut_downloads else None

        async def stream():
            if cut is None:
                yield body[start:]
                return
            yield body[start : start + cut]
            raise ConnectionResetError

        headers = {"Content-Length": str(len(body) - start)}
        return StreamingResponse(stream(), status, headers)

    async def push(request):
        name = request.query_params["name"]
        if request.headers["content-type"] == "application/json":
            path = (await request.json())["path"]
            if not any(path.startswith(str(root)) for root in fake.roots):
                return problem(403, "outside_roots", f"{path} is not under a data root")
            view = dataset(name, kind="folder", path=path)
        else:
            body = await request.body()
            fake.uploads.append((name, request.headers["content-type"], body))
            fake.upload_queries.append(request.query_params.multi_items())
            view = dataset(name, sha256=hashlib.sha256(body).hexdigest(), size_bytes=len(body))
        view |= {"id": f"ds_{len(fake.datasets) + 1}", "warnings": fake.dataset_warnings}
        if fake.dataset_errors:
            view |= {"status": "invalid", "errors": fake.dataset_errors}
        fake.datasets[view["id"]] = view
        return JSONResponse({**view, "status": "validating"}, 202)

    async def datasets(request):
        name = request.query_params.get("name")
        newest_first = list(fake.datasets.values())[::-1]
        return page([view for view in newest_first if name in (None, view["name"])])

    async def get_dataset(request):
        found = fake.datasets.get(request.path_params["dataset_id"])
        return JSONResponse(found) if found else problem(404, "not_found", "no such data set")

    async def samples(request):
        fake.sample_queries.append(dict(request.query_params))
        found = [
            {"id": "train-0", "split": "train", "class_name": "cat, dog", "path": "a.png",
             "boxes": fake.sample_boxes}
        ]  # fmt: skip
        url = f"/v1/datasets/{request.path_params['dataset_id']}/tiles?split=train"
        tiles = {"name": "tiles.png", "columns": 1, "side": 192, "url": url}
        return JSONResponse({"data": found, "has_more": False, "tiles": tiles})

    async def rows(request):
        fake.sample_queries.append(dict(request.query_params))
        cells = [f"cell {number}" for number in range(7)] + [None]
        row = {"id": "train-0", "split": "train", "target": "spam", "cells": cells}
        columns = [f"column {number}" for number in range(8)]
        return JSONResponse({"data": [row], "columns": columns, "num_columns": 8})

    async def tiles(_request):
        return Response(b"a picture", media_type="image/png")

    async def held_out(_request):
        if fake.test_samples is None:
            return problem(404, "no_samples", "test samples can only be downloaded with labels")
        return Response(fake.test_samples, media_type="application/zip")

    async def delete_dataset(request):
        del fake.datasets[request.path_params["dataset_id"]]
        return Response(status_code=204)

    async def tasks(request):
        return page([{"name": "image-classification", "description": "Images into classes."}])

    async def schema(request):
        return JSONResponse(task_schema(request.path_params["task"]))

    async def workers(request):
        worker = {
            "id": "wrk_1",
            "hostname": "box",
            "is_live": True,
            "lag_seconds": 1.0,
            "version": "0.1.0",
            "slots": 1,
            "last_seen_at": STARTED_AT.isoformat(),
        }
        card = {"engine": "tinygrad", "name": "RX 580", "device": "CL:1", "slots": [2]}
        return page([worker, worker | {"hostname": "small", "engine_devices": [card]}])

    async def notices(request):
        at = STARTED_AT.isoformat()
        sent = {"id": "note_1", "job_id": JOB_ID, "target": "ntfy://ntfy.sh#1", "event": "failed",
                "status": "failed", "num_tries": 8, "due_at": at, "created_at": at,
                "error": "ntfy.sh answered 500"}  # fmt: skip
        return page([sent])

    async def test_notices(request):
        works = {"target": "ntfy://ntfy.sh#1", "is_sent": True, "error": None}
        fails = {"target": "slack://x#2", "is_sent": False, "error": "x answered 404"}
        return JSONResponse([works, fails])

    async def bundle(request):
        sha256 = request.path_params["sha256"]
        if not fake.allows_scripts:
            return problem(403, "scripts_not_allowed", "start it with REDKILN_SCRIPTS=on")
        if request.method == "PUT":
            fake.bundles[sha256] = await request.body()
        if sha256 not in fake.bundles:
            return problem(404, "not_found", "there is no such bundle")
        return JSONResponse({"sha256": sha256})

    async def health(request):
        return JSONResponse({"status": "ok", "version": "0.1.0"})

    of_job = "/v1/jobs/{job_id}"
    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/v1/bundles/{sha256}", bundle, methods=["GET", "PUT"]),
            Route("/v1/models", models),
            Route("/v1/models/{sha256}", bundle, methods=["GET", "PUT"]),
            *build_bulk_routes(fake),
            *build_storage_routes(),
            *build_audit_routes(),
            *build_key_routes(),
            Route("/v1/jobs", submit, methods=["POST"]),
            Route("/v1/jobs", jobs),
            Route(of_job, job_or_404(job)),
            Route(of_job, job_or_404(delete), methods=["DELETE"]),
            Route(f"{of_job}/cancel", job_or_404(cancel), methods=["POST"]),
            Route(f"{of_job}/pause", job_or_404(steer), methods=["POST"]),
            Route(f"{of_job}/resume", job_or_404(steer), methods=["POST"]),
            Route(f"{of_job}/finish", job_or_404(steer), methods=["POST"]),
            Route(f"{of_job}/priority", job_or_404(set_priority), methods=["POST"]),
            Route(f"{of_job}/move", job_or_404(move), methods=["POST"]),
            Route(f"{of_job}/retry", job_or_404(steer), methods=["POST"]),
            Route(f"{of_job}/checkpoints", job_or_404(checkpoints)),
            Route(f"{of_job}/events", job_or_404(events)),
            Route(f"{of_job}/logs", job_or_404(logs)),
            Route(f"{of_job}/preview", job_or_404(preview)),
            Route(f"{of_job}/metrics", job_or_404(metrics)),
            Route(f"{of_job}/telemetry", job_or_404(telemetry)),
            Route(f"{of_job}/artifacts", job_or_404(artifacts)),
            Route("/v1/artifacts/{artifact_id}/content", content),
            Route("/v1/datasets", push, methods=["POST"]),
            Route("/v1/datasets", datasets),
            Route("/v1/datasets/{dataset_id}", get_dataset),
            Route("/v1/datasets/{dataset_id}/samples", samples),
            Route("/v1/datasets/{dataset_id}/rows", rows),
            Route("/v1/datasets/{dataset_id}/tiles", tiles),
            Route("/v1/datasets/{dataset_id}/test-samples", held_out),
            Route("/v1/datasets/{dataset_id}", delete_dataset, methods=["DELETE"]),
            Route("/v1/tasks", tasks),
            Route("/v1/tasks/{task}/schema", schema),
            Route("/v1/workers", workers),
            Route("/v1/gpus", gpus),
            Route("/v1/gpus/{worker_id}/{key}/free", free, methods=["POST", "DELETE"]),
            Route("/v1/doctor", doctor),
            Route("/v1/notices", notices),
            Route("/v1/notices/test", test_notices, methods=["POST"]),
        ]
    )


class Recorder:
    """Notes each request, and answers with the failures that were asked for first."""

    def __init__(self, app, fake):
        self.app, self.fake = app, fake

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            headers = {k.decode(): v.decode() for k, v in scope["headers"]}
            self.fake.requests.append((scope["method"], scope["path"], headers))
            if self.fake.failures:
                status, extra = self.fake.failures.pop(0)
                await problem(status, "busy", "not now", headers=extra)(scope, receive, send)
                return
        with contextlib.suppress(ConnectionResetError):
            await self.app(scope, receive, send)
