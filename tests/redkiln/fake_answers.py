"""Forms of answers that the made service shares with the real one."""

from starlette.responses import JSONResponse


def problem(status, code, detail, errors=(), headers=None):
    titles = {401: "Unauthorized", 404: "Not Found", 422: "Unprocessable Content"}
    body = {
        "type": "about:blank",
        "title": "The spec is wrong" if code == "invalid_spec" else titles.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
        "errors": list(errors),
        "request_id": "req_1",
    }
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def page(items):
    return JSONResponse({"object": "list", "data": items, "has_more": False})
