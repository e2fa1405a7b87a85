"""The made service's answers about its storage."""

from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.redkiln.fake_service import JOB_ID, STARTED_AT


def build_storage_routes():
    async def storage(request):
        how = "DELETE /v1/jobs/{id}, or redkiln delete JOB"
        kind = {"kind": "logs", "bytes": 4000, "count": 2, "freeable_bytes": 1000, "how": how}
        disk = {"free_bytes": 2 * 10**9, "total_bytes": 10**10, "reserved_bytes": 0}
        return JSONResponse({"disk": disk, "kinds": [kind], "largest": []})

    async def retention(request):
        days = request.query_params.get("keep_jobs_days")
        ended = STARTED_AT.isoformat()
        old = {"id": JOB_ID, "name": "flowers", "finished_at": ended, "bytes": 4000}
        jobs = {"rule": "jobs", "setting": "REDKILN_KEEP_JOBS_DAYS", "days": None}
        if days is not None:
            jobs |= {"days": float(days), "count": 12, "bytes": 5000, "num_kept": 1}
            jobs["oldest"] = [old] * 12
        return JSONResponse({"rules": [jobs]})

    return [Route("/v1/storage", storage), Route("/v1/storage/retention", retention)]
