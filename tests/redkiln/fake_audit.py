"""The route of the audit log of the fake service."""

from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.redkiln.fake_service import JOB_ID, STARTED_AT


def build_audit_routes():
    async def audit(request):
        entry = {"id": "aud_1", "at": STARTED_AT.isoformat(), "key_id": "key_1",
                 "key_name": request.query_params.get("key", "ben"), "project": "flowers",
                 "action": "POST /v1/jobs/{job_id}/cancel", "object": JOB_ID,
                 "outcome": "forbidden", "address": "10.0.0.7"}  # fmt: skip
        return JSONResponse({"data": [entry], "has_more": False})

    return [Route("/v1/audit", audit)]
