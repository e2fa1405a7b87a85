"""The routes for administrators of the fake service: API keys and the audit log."""

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.redkiln.fake_answers import page, problem
from tests.redkiln.fake_service import JOB_ID, STARTED_AT


def build_key_routes():
    async def keys(request):
        if request.headers.get("authorization") != "Bearer rk_admin":
            return problem(401, "unauthorized", "no key")
        view = {
            "id": "key_1",
            "name": "anna",
            "scope": "user",
            "created_at": STARTED_AT.isoformat(),
        }
        if request.method == "POST":
            return JSONResponse({**view, "secret": "rk_secret"}, 201)
        return page([view])

    async def revoke(request):
        return Response(status_code=204)

    async def rotate(request):
        answer = await keys(request)
        return answer if answer.status_code == 401 else JSONResponse(
            {"id": "key_2", "name": "anna", "scope": "user", "secret": "rk_new",
             "created_at": STARTED_AT.isoformat()}, 201,
        )  # fmt: skip

    return [
        Route("/v1/keys", keys, methods=["GET", "POST"]),
        Route("/v1/keys/{key_id}", revoke, methods=["DELETE"]),
        Route("/v1/keys/{key_id}/rotate", rotate, methods=["POST"]),
    ]


def build_audit_routes():
    async def audit(request):
        entry = {"id": "aud_1", "at": STARTED_AT.isoformat(), "key_id": "key_1",
                 "key_name": request.query_params.get("key", "ben"), "project": "flowers",
                 "action": "POST /v1/jobs/{job_id}/cancel", "object": JOB_ID,
                 "outcome": "forbidden", "address": "10.0.0.7"}  # fmt: skip
        return JSONResponse({"data": [entry], "has_more": False})

    return [Route("/v1/audit", audit)]
