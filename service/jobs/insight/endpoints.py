"""What a job did, over HTTP: results by class, mistakes, previews, differences of its spec."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from redkiln.views.evaluation import Evaluation, Mistake, SpecDifferences
from redkiln.views.page import Page
from redkiln.views.sample import PreviewView
from service.attempts.previews import list_previews, preview_path
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


@router.get("/previews")
def show_previews(job_id: str, services: Use) -> Page[PreviewView]:
    """List the steps of a job's sample predictions; `url` has the picture or table of each.

    Of many, the first, the newest and some between them are kept.
    """
    services.database.read(lambda session: get_job(session, job_id))
    found = list_previews(preview_path(services.settings.previews_dir, job_id))
    shown = [
        PreviewView(
            step=facts.step,
            media_type=facts.media_type,
            made_at=facts.made_at,
            url=f"/v1/jobs/{job_id}/preview?step={facts.step}",
        )
        for facts in found
    ]
    return Page[PreviewView](
        data=shown,
        first_id=str(shown[0].step) if shown else None,
        last_id=str(shown[-1].step) if shown else None,
    )
