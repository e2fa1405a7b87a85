"""What a job did, over HTTP: results by class, mistakes, and differences of its spec."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from redkiln.views.evaluation import Evaluation, Mistake, SpecDifferences
from redkiln.views.page import Page
from service.http.access import require_user
from service.http.parameters import refuse_unknown_parameters
from service.jobs.insight.differences import find_differences
from service.jobs.insight.evaluation import get_evaluation, list_mistakes
from service.jobs.rules import get_job
from service.services import Use

router = APIRouter(
    prefix="/v1/jobs/{job_id}",
    tags=["jobs"],
    dependencies=[Depends(require_user), Depends(refuse_unknown_parameters)],
)
ClassName = Annotated[str | None, Query(max_length=1000)]
_NONE: dict[int | str, dict[str, Any]] = {
    404: {"description": "There is no such job, or it has no evaluation by class."}
}


@router.get("/evaluation", responses=_NONE)
def show_evaluation(job_id: str, services: Use) -> Evaluation:
    """Get a classifier's results for each class of the test split, and its confusion matrix."""
    return get_evaluation(services, job_id)


@router.get("/mistakes", responses=_NONE)
def show_mistakes(
    job_id: str,
    services: Use,
    true: ClassName = None,
    predicted: ClassName = None,
    after: Annotated[
        int | None, Query(ge=0, lt=2**53, description="Continue after the mistake of this sample.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Page[Mistake]:
    """List test samples that a classifier gets wrong, most confident first.

    `true` and `predicted` select a cell of the confusion matrix. The first ones of the whole list
    are the candidates for wrong labels.
    """
    found = list_mistakes(
        services, job_id, true=true, predicted=predicted, after=after, limit=limit + 1
    )
    shown = list(found[:limit])
    return Page[Mistake](
        data=shown,
        has_more=len(found) > limit,
        first_id=str(shown[0].sample) if shown else None,
        last_id=str(shown[-1].sample) if shown else None,
    )


@router.get("/differences")
def show_differences(job_id: str, services: Use) -> SpecDifferences:
    """List the fields of a job's spec that are not at the defaults of its task.

    Once a worker has resolved the spec, the values are those that it used.
    """
    return services.database.read(lambda session: find_differences(get_job(session, job_id)))
