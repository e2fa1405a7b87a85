"""Checks uploaded ONNX files and files with weights in a process with limits."""

from typing import Any

from sqlmodel import Session, select

from redkiln.spec.image_models import Model
from redkiln.spec.job_weights import JOB_PREFIX, split_file
from redkiln.spec.problems import SpecProblem
from service.artifacts.models import Artifact
from service.bundles.checking import run_check
from service.bundles.models import Bundle
from service.errors import Unprocessable
from service.jobs.models import Job
from service.keys.caller import Caller
from service.services import Services
from service.storage import Storage

_DIED = (
    "the file could not be read within the limits of a check (4 GB of memory, 60 s of CPU time); "
    "check that it is not damaged, or use a smaller one"
)


def check_model_file(storage: Storage, sha256: str) -> None:
    """Check a stored file.

    Raises:
        Unprocessable: It is neither an ONNX file that can be trained, nor a file with weights.
    """
    if problem := _find_problem(storage, sha256, kind="file"):
        raise Unprocessable(problem, code="unsupported_onnx")


def check_trained_file(services: Services, caller: Caller, body: Any) -> None:
    """Check that the ONNX file that a spec trains is a classifier of images that its engine runs.

    The upload cannot know this, because the same file may only give its weights. Other mistakes in
    the spec are found later.

    Raises:
        Unprocessable: It has other inputs, its weights are not in float32, or it has operators
            that the engine lacks.
    """
    model = body.get("model") if isinstance(body, dict) else None
    if not isinstance(model, dict) or model.get("source") != "onnx":
        return
    try:
        file = Model.model_validate(model).file
    except ValueError:
        return
    sha256 = services.database.read(lambda session: _find_stored(session, caller, file))
    if sha256 is None:
        return
    if problem := _find_problem(services.storage, sha256, kind="classifier"):
        raise _refuse("/model/file", "unsupported_onnx", problem)
    resources = body.get("resources")
    if not isinstance(resources, dict) or resources.get("engine") != "tinygrad":
        return
    if problem := _find_problem(services.storage, sha256, kind="tinygrad"):
        message = f"{problem}; set engine to torch, or choose another model"
        raise _refuse("/resources/engine", "engine_unsupported", message)


def _find_stored(session: Session, caller: Caller, file: str | None) -> str | None:
    """Return the digest of an upload or of a file of a job; None if the caller knows none such."""
    if file is None:
        return None
    if not file.startswith(JOB_PREFIX):
        return None if session.get(Bundle, file) is None else file
    job_id, name = split_file(file)
    job = session.get(Job, job_id)
    if job is None or caller.sees not in (None, job.project):
        return None
    found = select(Artifact.sha256).where(Artifact.job_id == job_id, Artifact.name == name)
    return session.exec(found).first()


def _refuse(pointer: str, code: str, message: str) -> Unprocessable:
    found = [SpecProblem(pointer, code, message)]
    return Unprocessable(f"{pointer}: {message}", code="invalid_spec", errors=found)


def _find_problem(storage: Storage, sha256: str, *, kind: str) -> str:
    with storage.local_copy(sha256) as path:
        problem = run_check("service.bundles.onnx_check", [str(path.absolute()), kind])
    return _DIED if problem is None else problem
