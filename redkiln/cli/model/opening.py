"""Opens the model that a user names: a file, a folder of results, or a job."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from redkiln.cli.arguments.completion import complete_runnable
from redkiln.cli.arguments.naming import find_job_id
from redkiln.cli.command import Session
from redkiln.cli.model.registry import split_reference
from redkiln.cli.problems import UsageError
from redkiln.cli.view.transfers import download_counter, transfer_bars
from redkiln.client import Client
from redkiln.views.artifact import ArtifactView

if TYPE_CHECKING:
    from redkiln.predict.model import Model

LIBRARIES = frozenset(
    ("numpy", "PIL", "onnxruntime", "tokenizers", "cryptography", "faster_coco_eval")
)

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL_OR_JOB",
        help="An ONNX file, a folder of results, a job (id, name, or `last`), or NAME@ALIAS.",
        show_default=False,
        autocompletion=complete_runnable,
    ),
]
VariantName = Annotated[
    str | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="File in lower precision, such as int8-static, instead of the one in float32.",
        show_default=False,
    ),
]


@contextmanager
def needing_libraries() -> Iterator[None]:
    """Say how to install the libraries that run models, if one is missing.

    Raises:
        UsageError: A library is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in LIBRARIES:
            raise
        raise UsageError(
            f"The Python library {library} is missing. Install what runs models: "
            "pip install 'redkiln[predict]'"
        ) from error


def find_model(session: Session, named: str, *, variant: str | None = None) -> Path:
    """Return the path of the ONNX file; a job's files are downloaded once, into a cache.

    Args:
        session: The command's session.
        named: A file, a folder of results, a job, or a version in the registry (`NAME@ALIAS`).
        variant: Variant of the model; None for the named file, or the one in float32.

    Raises:
        RedkilnError: There is no such file or job, or the job has no model.
    """
    from redkiln.predict.places import (
        choose_variant,
        download_model,
        find_cached,
        find_model_file,
    )

    if (path := find_model_file(named)) is not None:
        return choose_variant(path.parent, variant) if variant else path
    file = None
    if "@" in named:
        version = session.client.model_version(*split_reference(named))
        named, file = version.lineage.job_id, version.file
    # A whole id names the same files forever, so a cached model needs no service.
    folder = find_cached(named) if named.startswith("job_") else None
    if folder is None:
        job_id = _find_job(session.client, named)
        with transfer_bars(session.notes) as bars:

            def fetch(client: Client, artifact: ArtifactView, path: Path) -> None:
                count = download_counter(bars, artifact.name, artifact.size_bytes)
                client.download(artifact, path, on_bytes=count)

            folder = download_model(session.client, job_id, fetch=fetch)
    if file is not None and variant is None:
        return folder / file
    return choose_variant(folder, variant)


def _find_job(client: Client, named: str) -> str:
    """Return the id of the job that the user named.

    Raises:
        UsageError: No job or several jobs match, or it is a name in the registry.
    """
    try:
        return find_job_id(client, named)
    except UsageError as error:
        if named not in [model.name for model in client.registered_models()]:
            raise
        raise UsageError(
            f"{named} is a registered model, not a job. Name a version: {named}@latest. List its "
            f"versions: redkiln models show {named}"
        ) from error


def open_model(
    session: Session,
    named: str,
    *,
    variant: str | None = None,
    threads: int = 0,
    column: str | None = None,
    encoding: str | None = None,
    threshold: float | Literal["auto"] | None = None,
) -> "Model":
    """Open the model that a user names.

    Args:
        session: The command's session.
        named: A file, a folder of results, or a job.
        variant: Variant of the model, such as `int8-static`.
        threads: Threads to use; 0 for one on each core.
        column: Column of a table that has the texts.
        encoding: Encoding of tables and of files of texts.
        threshold: Probability from which the rarer of two classes is the answer.

    Raises:
        RedkilnError: There is no such model, or it cannot be used.
    """
    from redkiln.predict.model import Model

    path = find_model(session, named, variant=variant)
    model = Model(path, threads=threads, column=column, encoding=encoding, threshold=threshold)
    if model.description.verified is False:
        session.note(
            f"{model.path} is UNVERIFIED: its outputs differ from the trained model's. See "
            f"report.md; `redkiln verify {named}` shows the differences."
        )
    return model
