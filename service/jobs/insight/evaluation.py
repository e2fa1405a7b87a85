"""Reads what a job's model gets wrong from the files that its export published."""

from collections.abc import Sequence

from pydantic import ValidationError
from sqlmodel import Session, select

from redkiln.views.evaluation import (
    FILE_NAME,
    MOST_DENSE_CLASSES,
    PICTURE_NAME,
    Evaluation,
    EvaluationFile,
    Mistake,
)
from service.artifacts.models import Artifact
from service.artifacts.rules import artifact_view
from service.errors import NotFound
from service.jobs.rules import get_job
from service.services import Services

_MOST_BYTES = 64 * 1024**2


def get_evaluation(services: Services, job_id: str) -> Evaluation:
    """Return how a job's model does on each class.

    Raises:
        NotFound: There is no such job, or it published no evaluation.
    """
    content, picture = _load(services, job_id)
    tiles = content.tiles and content.tiles.model_copy(update={"url": picture})
    known = content.model_dump(exclude={"mistakes", "matrix", "tiles"})
    return Evaluation(**known, matrix=_dense(content), tiles=tiles if picture else None)


def list_mistakes(
    services: Services,
    job_id: str,
    *,
    true: str | None,
    predicted: str | None,
    after: int | None,
    limit: int,
) -> Sequence[Mistake]:
    """Return mistakes of a job's model, most confident first.

    Args:
        services: Parts of the service.
        job_id: Id of the job.
        true: Class in the data of the mistakes to list; None for all.
        predicted: Class given by the model, likewise.
        after: Sample of a mistake; only those behind it are listed.
        limit: Most mistakes to return.

    Raises:
        NotFound: There is no such job, or it published no evaluation.
    """
    content, _ = _load(services, job_id)
    found = [
        mistake
        for mistake in content.mistakes
        if true in (None, mistake.true) and predicted in (None, mistake.predicted)
    ]
    if after is not None:
        places = [place for place, mistake in enumerate(found) if mistake.sample == after]
        found = found[places[0] + 1 :] if places else []
    return found[:limit]


def _load(services: Services, job_id: str) -> tuple[EvaluationFile, str | None]:
    """Return a job's evaluation, and the address of its picture if there is one."""

    def find(session: Session) -> dict[str, Artifact]:
        get_job(session, job_id)
        named = select(Artifact).where(Artifact.job_id == job_id)
        return {artifact.name: artifact for artifact in session.exec(named)}

    files = services.database.read(find)
    file = files.get(FILE_NAME)
    if file is None or file.size_bytes > _MOST_BYTES:
        message = (
            "the job has no evaluation by class; classifiers and detectors have one, once they are "
            "exported"
        )
        raise NotFound(message, code="no_evaluation")
    picture = files.get(PICTURE_NAME)
    url = None if picture is None else artifact_view(picture).url
    return _read(services, file.sha256), url


def _read(services: Services, sha256: str) -> EvaluationFile:
    try:
        with services.storage.local_copy(sha256) as path:
            return EvaluationFile.model_validate_json(path.read_bytes())
    except ValidationError as error:
        message = f"{FILE_NAME} is not an evaluation that this release can read"
        raise NotFound(message, code="no_evaluation") from error


def _dense(content: EvaluationFile) -> list[list[int]] | None:
    has_no_matrix = content.has_labels or content.has_boxes or content.has_masks
    if has_no_matrix or len(content.classes) > MOST_DENSE_CLASSES:
        return None
    places = {name: place for place, name in enumerate(content.classes)}
    matrix = [[0] * len(places) for _ in places]
    for cell in content.confused:
        matrix[places[cell.true]][places[cell.predicted]] = cell.num
    return matrix
