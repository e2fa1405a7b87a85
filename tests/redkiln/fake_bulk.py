"""The made service's answers to changes of many jobs."""

from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.redkiln.fake_service import JOB_ID


def build_bulk_routes(fake):
    async def change(request):
        query = request.query_params.multi_items()
        fake.steered.append((request.method, query))
        is_first = ("after", JOB_ID) not in query
        refused = {"id": "job_2", "name": "kept", "code": "job_active", "message": "it runs"}
        return JSONResponse(
            {
                "dry_run": ("dry_run", "true") in query,
                "done": [{"id": JOB_ID, "name": "flowers", "status": "failed"}] if is_first else [],
                "refused": [] if is_first else [refused],
                "has_more": is_first,
                "last_id": JOB_ID if is_first else "job_2",
            }
        )

    return [
        Route("/v1/jobs/cancel", change, methods=["POST"]),
        Route("/v1/jobs", change, methods=["DELETE"]),
    ]
