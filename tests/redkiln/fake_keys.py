"""The routes of API keys of the fake service."""

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.redkiln.fake_answers import page, problem
from tests.redkiln.fake_service import STARTED_AT


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
