"""Jobs that use the weights of another job.

They start from them (`model.pretrained: job:<id>`), or export them again (the task `export`).
"""

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, select

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.job_weights import JOB_PREFIX, split_file
from redkiln.spec.own_code import CODE
from redkiln.spec.problems import SpecProblem
from redkiln.status import JobStatus
from redkiln.tables import find_other_column
from redkiln.tasks import trains_model
from redkiln.tasks.export import ExportSpec
from service.artifacts.models import Artifact
from service.datasets.models import Dataset
from service.jobs.models import Job

CHECKPOINT = "checkpoint.safetensors"
"""Name of the artifact with a trained model's weights."""

MANIFEST = "manifest.json"

_POINTER = "/model/pretrained"
_SOURCE = "/source"


def source_job_of(spec: Mapping[str, Any]) -> str | None:
    """Id of the job whose weights a spec uses; None if it uses those of no job."""
    if "source" in spec:
        return str(spec["source"])
    found = _model_field(spec, "pretrained") or _model_field(spec, "file")
    return None if found is None else split_file(found)[0]


def _model_field(spec: Mapping[str, Any], name: str) -> str | None:
    """Return a field of the model if it names a job."""
    model = spec.get("model")
    value = model.get(name) if isinstance(model, Mapping) else None
    return value if isinstance(value, str) and value.startswith(JOB_PREFIX) else None


def find_initial(session: Session, spec: Mapping[str, Any]) -> Artifact | None:
    """Return the file of another job that a spec starts from: its checkpoint, or its model.

    None if the spec names no job, or the file is deleted.
    """
    file = _model_field(spec, "file")
    name = CHECKPOINT if file is None else split_file(file)[1]
    return _find_file(session, source_job_of(spec), name)


def find_manifest(session: Session, spec: Mapping[str, Any]) -> Artifact | None:
    """Return the manifest of the job that a spec exports; None if it exports none or it is gone."""
    return _find_file(session, spec.get("source"), MANIFEST)


def _find_file(session: Session, job_id: str | None, name: str) -> Artifact | None:
    if job_id is None:
        return None
    statement = select(Artifact).where(Artifact.job_id == job_id, Artifact.name == name)
    return session.exec(statement).first()


def resolve_export(session: Session, spec: JobSpec) -> dict[str, Any] | None:
    """Return the spec of an export with the model that its source trained; None for other tasks."""
    if not isinstance(spec, ExportSpec):
        return None
    source = session.get(Job, spec.source)
    trained = {} if source is None else source.resolved_spec or source.spec
    return {**spec.model_dump(mode="json"), "model": trained.get("model")}


def export_of(source: Job, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec that exports a job again.

    Args:
        source: The job.
        asked: Fields of `export` that differ from those of the job, as JSON.
    """
    before = dict(source.spec.get("export", {}))
    # It needs training, so it cannot be repeated; a request for it gets that reason.
    kept = [one for one in before.get("variants", []) if one["name"] != "int8-qat"]
    before["variants"] = kept
    return {
        "task": "export",
        "name": f"{source.name[:93]}-export",
        "source": source.id,
        "export": {**before, **asked},
        "priority": source.priority,
    }


def find_export_problems(session: Session, spec: ExportSpec) -> list[SpecProblem]:
    """Return why the named job cannot be exported again."""
    source = session.get(Job, spec.source)
    if source is None:
        code, why = (
            "unknown_job",
            f"there is no job {spec.source!r}; GET /v1/jobs lists the jobs with their ids",
        )
    elif source.task == spec.task:
        first = source.spec["source"]
        code, why = "task_mismatch", f"{source.id} is itself an export; export {first} instead"
    elif not trains_model(source.task):
        code, why = "task_mismatch", f"{source.id} is of task {source.task}, which trains no model"
    elif source.status != JobStatus.SUCCEEDED:
        code = "job_not_succeeded"
        why = f"{source.id} is {source.status}; {_how_to_export(source.status)}"
    elif not all(_find_file(session, source.id, name) for name in (CHECKPOINT, MANIFEST)):
        code, why = (
            "no_checkpoint",
            f"{source.id} no longer has its {CHECKPOINT} and {MANIFEST}; train it again",
        )
    elif (source.resolved_spec or source.spec).get("model", {}).get("file"):
        code = "own_file"
        why = f"{source.id} trained its user's own network; train it again with these variants"
    elif _is_dataset_gone(session, source):
        code = "no_dataset"
        why = f"the data set of {source.id} is deleted, so nothing can be compared; push it again"
    else:
        return []
    return [SpecProblem(_SOURCE, code, why)]


def _how_to_export(status: str) -> str:
    if JobStatus(status).is_terminal:
        return f"POST /v1/jobs/{{id}}/finish exports the best checkpoint of a {status} job"
    return "wait until it has ended"


def _is_dataset_gone(session: Session, source: Job) -> bool:
    dataset = session.get(Dataset, source.dataset_id) if source.dataset_id else None
    return dataset is None or dataset.deleted_at is not None


def initial_problems(session: Session, spec: JobSpec, dataset: Dataset | None) -> list[SpecProblem]:
    """Return why a spec cannot use the weights of the named job on this data set."""
    if isinstance(spec, ExportSpec):
        return find_export_problems(session, spec)
    fields = spec.model_dump(mode="json")
    job_id = source_job_of(fields)
    if job_id is None:
        return []
    source = session.get(Job, job_id)
    if _model_field(fields, "file"):
        return _file_problems(session, fields, job_id)
    if source is None:
        message = f"there is no job {job_id!r}; GET /v1/jobs lists the jobs with their ids"
        return [SpecProblem(_POINTER, "unknown_job", message)]
    others = spec.starts_from if isinstance(spec, TrainingSpec) else ()
    if source.task not in (spec.task, *others):
        message = f"{job_id} was trained for {source.task}, not for {spec.task}"
        return [SpecProblem(_POINTER, "task_mismatch", message)]
    if source.status != JobStatus.SUCCEEDED:
        message = (
            f"{job_id} is {source.status}; only a job that succeeded has weights to start from"
        )
        return [SpecProblem(_POINTER, "job_not_succeeded", message)]
    if find_initial(session, fields) is None:
        message = f"{job_id} no longer has its {CHECKPOINT}; choose another job"
        return [SpecProblem(_POINTER, "no_checkpoint", message)]
    if source.task != spec.task:
        return []  # the worker decides whether the network has the part that is taken
    trained = (source.resolved_spec or source.spec)["model"]
    return [
        *_architecture_problems(fields["model"], trained),
        *_column_problems(session, source, dataset),
    ]


def _file_problems(session: Session, spec: Mapping[str, Any], job_id: str) -> list[SpecProblem]:
    if find_initial(session, spec) is not None:
        return []
    name = split_file(spec["model"]["file"])[1]
    message = f"there is no {name} of a job {job_id!r}; GET /v1/jobs/{{id}}/artifacts lists files"
    return [SpecProblem("/model/file", "unknown_job", message)]


def _architecture_problems(
    wanted: Mapping[str, Any], trained: Mapping[str, Any]
) -> list[SpecProblem]:
    if wanted["source"] == "job" and trained["source"] == CODE:
        message = (
            "that job trained its user's own class; send the code again with source: code, and "
            "name the job in pretrained"
        )
        return [SpecProblem("/model/source", "own_code", message)]
    if wanted["source"] in ("job", CODE):
        return []
    for field in ("source", "name"):
        if wanted[field] not in (trained[field], "auto"):
            message = (
                f"that job trained {trained['name']} ({trained['source']}), not {wanted['name']} "
                f"({wanted['source']}); remove source and name to use its model"
            )
            return [SpecProblem(f"/model/{field}", "other_architecture", message)]
    return []


def _column_problems(session: Session, source: Job, dataset: Dataset | None) -> list[SpecProblem]:
    """Return how the columns of two tables differ.

    The worker checks a table that is still being validated or has no columns. A table that has
    been deleted since still has its report.
    """
    before = session.get(Dataset, source.dataset_id) if source.dataset_id else None
    theirs, mine = _features_of(before), _features_of(dataset)
    if not theirs or not mine:
        return []
    message = find_other_column(theirs, mine, job_id=source.id)
    return [] if message is None else [SpecProblem(_POINTER, "other_columns", message)]


def _features_of(dataset: Dataset | None) -> dict[str, str]:
    """Return the types of the feature columns of a table by name."""
    columns = [] if dataset is None else dataset.report.get("columns", [])
    return {c["name"]: c["type"] for c in columns if c["type"] in ("numeric", "categorical")}
