"""Publishes the files of a job and finds them."""

from collections.abc import Sequence, Set

from sqlmodel import Session, col, delete, select

from redkiln.protocol import ArtifactCommit
from redkiln.spec.problems import SpecProblem
from redkiln.views.artifact import ArtifactView
from service.artifacts.models import Artifact
from service.blobs.rules import discard, is_own
from service.database import read_now
from service.errors import NotFound, Unprocessable
from service.ids import new_id
from service.storage import Storage


def publish(
    session: Session,
    storage: Storage,
    job_id: str,
    attempt_id: str,
    commits: Sequence[ArtifactCommit],
    *,
    own: Set[str] | None = None,
) -> None:
    """Publish files as artifacts of a job.

    An identical artifact stays unchanged. A different one of the same name, which the program has
    rewritten or an attempt before a retry has left, is replaced. For an attempt that has ended
    already, `own` has the digests that it may publish (`find_own`).

    Raises:
        Unprocessable: A name is used twice, or the bytes of a file are not stored.
    """
    if own is None:
        own = find_own(session, job_id, attempt_id, commits)
    problems = find_problems(storage, commits, own=own)
    if problems:
        detail = "; ".join(problem.message for problem in problems)
        raise Unprocessable(detail, code="bad_artifacts", errors=problems)
    now = read_now(session)
    new = [commit for commit in commits if not _is_published(session, job_id, commit)]
    _make_way(session, job_id, [commit.name for commit in new])
    for commit in new:
        session.add(
            Artifact(
                id=new_id("art"),
                job_id=job_id,
                attempt_id=attempt_id,
                created_at=now,
                **commit.model_dump(),
            )
        )


def find_own(
    session: Session, job_id: str, attempt_id: str, commits: Sequence[ArtifactCommit]
) -> Set[str]:
    """Return the digests of those files whose bytes the attempt or its job has sent."""
    sha256s = {commit.sha256 for commit in commits}
    return {s for s in sha256s if is_own(session, s, attempt_id=attempt_id, job_id=job_id)}


def _is_published(session: Session, job_id: str, commit: ArtifactCommit) -> bool:
    known = session.exec(
        select(Artifact).where(Artifact.job_id == job_id, Artifact.name == commit.name)
    ).first()
    wanted = commit.model_dump()
    return known is not None and known.model_dump(include=set(wanted)) == wanted


def _make_way(session: Session, job_id: str, names: Sequence[str]) -> None:
    of_names = (col(Artifact.job_id) == job_id, col(Artifact.name).in_(names))
    sha256s = session.exec(select(Artifact.sha256).where(*of_names)).all()
    session.exec(delete(Artifact).where(*of_names))
    discard(session, sha256s)


def find_problems(
    storage: Storage, commits: Sequence[ArtifactCommit], *, own: Set[str]
) -> list[SpecProblem]:
    """Return why files cannot be published; `own` are digests of bytes that the job has sent."""
    problems = []
    names: set[str] = set()
    for position, commit in enumerate(commits):
        pointer = f"/artifacts/{position}"
        if commit.name in names:
            message = f"{commit.name} is listed twice; list each file once"
            problems.append(SpecProblem(f"{pointer}/name", "duplicate_name", message))
        names.add(commit.name)
        stored = storage.stat(commit.sha256) if commit.sha256 in own else None
        if stored is None:
            message = f"{commit.name} has not been uploaded; upload it first"
            problems.append(SpecProblem(f"{pointer}/sha256", "not_stored", message))
        elif stored.size_bytes != commit.size_bytes:
            message = f"{commit.name} has {stored.size_bytes} bytes, not {commit.size_bytes} bytes"
            problems.append(SpecProblem(f"{pointer}/size_bytes", "wrong_size", message))
    return problems


def list_artifacts(session: Session, job_id: str) -> Sequence[Artifact]:
    """Return the artifacts of a job in order of publication."""
    statement = select(Artifact).where(Artifact.job_id == job_id).order_by(col(Artifact.id))
    return session.exec(statement).all()


def get_artifact(session: Session, artifact_id: str) -> Artifact:
    """Return the artifact with this id.

    Raises:
        NotFound: There is no such artifact.
    """
    artifact = session.get(Artifact, artifact_id)
    if artifact is None:
        lists = "GET /v1/jobs/{job_id}/artifacts lists those of a job"
        raise NotFound(f"there is no artifact {artifact_id!r}; {lists}")
    return artifact


def artifact_view(artifact: Artifact) -> ArtifactView:
    """Return an artifact as the API shows it."""
    return ArtifactView(
        **artifact.model_dump(exclude={"attempt_id"}), url=f"/v1/artifacts/{artifact.id}/content"
    )
