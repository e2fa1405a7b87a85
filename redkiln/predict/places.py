"""Finds a model's file: a path, a folder of results, or a job whose files are downloaded once."""

import os
from collections.abc import Callable
from pathlib import Path

from redkiln.client import Client
from redkiln.client.result_folder import place_artifact
from redkiln.errors import ModelError
from redkiln.predict.description import MANIFEST, MODEL, check_digest, read_manifest
from redkiln.tasks.script import NAME as SCRIPT
from redkiln.views.artifact import ArtifactView

KINDS = ("model", "parity", "manifest")
OTHERS = ("tokenizer.json",)
COMPLETE = ".complete"
"""Marks a cached folder whose files have all been downloaded and checked."""
Fetch = Callable[[Client, ArtifactView, Path], object]


def find_model_file(named: str) -> Path | None:
    """Return the file that a path names; None if it must be a job.

    A job often has the name of the folder with its data.

    Raises:
        ModelError: It is a path without a model.
    """
    path = Path(named).expanduser()
    if path.is_dir():
        if (path / MODEL).is_file():
            return path / MODEL
        if os.sep not in named and not named.startswith((".", "~")):
            return None
        raise ModelError(f"{path} contains no {MODEL}. Name the ONNX file itself, or a job.")
    if path.exists():
        return path
    if named.endswith(".onnx") or os.sep in named:
        raise ModelError(f"File {named} does not exist.")
    return None


def choose_variant(folder: Path, variant: str | None) -> Path:
    """Return the file of a variant in a folder of results; None means the float32 file.

    Raises:
        ModelError: There is no such file.
    """
    if variant in (None, "fp32"):
        return folder / MODEL
    path = folder / f"model-{variant}.onnx"
    if not path.is_file():
        known = sorted(p.stem.removeprefix("model-") for p in folder.glob("model-*.onnx"))
        listed = ", ".join(["fp32", *known])
        raise ModelError(f"{folder} has no variant {variant}. It has: {listed}.")
    return path


def cache_folder(kind: str = "models") -> Path:
    """Return the folder of downloads of a kind: `$XDG_CACHE_HOME/redkiln/KIND`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "redkiln" / kind


def find_cached(job_id: str) -> Path | None:
    """Return the folder of a job's files if they were downloaded before and are undamaged."""
    folder = cache_folder() / job_id
    return folder if (folder / COMPLETE).exists() and _is_whole(folder) else None


def _is_whole(folder: Path) -> bool:
    """Return whether each file has the bytes that the manifest lists."""
    try:
        manifest = read_manifest(folder)
        for path in folder.iterdir():
            check_digest(path, manifest)
    except ModelError:
        return False
    return MANIFEST in {path.name for path in folder.iterdir()}


def download_model(client: Client, job_id: str, *, fetch: Fetch) -> Path:
    """Download a job's model, and what is needed to run and check it, into the cache.

    Args:
        client: A client of the service that ran the job.
        job_id: Id of the job.
        fetch: Downloads one artifact to a path.

    Returns:
        The folder of the files.

    Raises:
        ModelError: The job has no model.
        TransferError: A file arrived damaged or cannot be written.
    """
    if (known := find_cached(job_id)) is not None:
        return known
    wanted = [
        artifact
        for artifact in client.artifacts(job_id)
        if artifact.kind in KINDS or artifact.name in OTHERS
    ]
    names = {artifact.name for artifact in wanted}
    if not {MODEL, MANIFEST} <= names and client.job(job_id).task == SCRIPT:
        raise ModelError(_explain_script(job_id, [one for one in wanted if one.kind == "model"]))
    if not {MODEL, MANIFEST} <= names:
        raise ModelError(
            f"{job_id} has no model. A job that trains publishes one when it succeeds; see its "
            f"status: redkiln job {job_id}"
        )
    folder = cache_folder() / job_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / COMPLETE).unlink(missing_ok=True)
    for artifact in wanted:
        fetch(client, artifact, place_artifact(folder, artifact.name))
    (folder / COMPLETE).touch()
    return folder


def _explain_script(job_id: str, models: list[ArtifactView]) -> str:
    """Return what can be done with the ONNX files of a script, and why no more than that."""
    if not models:
        return (
            f"{job_id} is a script that did not write an ONNX file, so predict has nothing to run. "
            "Let the script write one into the folder REDKILN_OUT. To see its files: "
            f"redkiln artifacts {job_id}"
        )
    names = " ".join(model.name for model in models)
    one = models[0]
    checked = {
        True: "The job ran it on the script's samples: its outputs are those that the script gave.",
        False: f"It failed the job's check; the warning says why: redkiln job {job_id}",
        None: "The job did not compare it with outputs of the script: for that, the script has "
        "to write samples.npz next to it (see ONNX in docs/scripts.md).",
    }[one.verified]
    return (
        f"{one.name} of {job_id} was written by a script, and only the script knows how inputs are "
        "prepared: predict and verify run models that Redkiln trained. Download it (redkiln "
        f"download {job_id} {names}), prepare inputs as the script does, and run it with ONNX "
        f"Runtime. {checked}"
    )
