"""Runs a published model on inputs, in a process with limits."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from redkiln.views.models.prediction import PredictionsView
from service.artifacts.models import Artifact
from service.datasets.child import run_child
from service.errors import Unprocessable
from service.predictions.order import RESULT, Answer, Ending, PredictOrder
from service.storage import Storage
from service.storage.staged import require_free

NEEDED = ("manifest.json", "tokenizer.json")
"""Files that are read next to a model."""
MOST_THREADS = 4


def predict(
    storage: Storage,
    model: Artifact,
    others: Sequence[Artifact],
    *,
    content: bytes,
    ending: Ending,
    top: int | None,
    threshold: float | None = None,
    min_free_bytes: int,
) -> PredictionsView:
    """Return the predictions of a model.

    Args:
        storage: Place of the files.
        model: The ONNX file.
        others: Files of the same job.
        content: Inputs: an image, a table, or texts, one a line.
        ending: Ending of a file with such content; empty if the model decides.
        top: Number of classes, or of boxes, of each answer.
        threshold: Smallest score of a detector's boxes.
        min_free_bytes: Space that stays free on the disk.

    Raises:
        Unprocessable: The artifact is not a model, or the inputs do not suit it.
        Unavailable: The process failed or took too long.
        StorageFull: The disk has no room for a copy of the model.
    """
    if model.kind != "model":
        message = f"{model.name} is not a model; choose an artifact of kind `model`"
        raise Unprocessable(message, code="not_a_model")
    files = [model, *(one for one in others if one.name in NEEDED)]
    needed = sum(file.size_bytes for file in files) + len(content)
    require_free(storage.work_dir, needed + min_free_bytes)
    work_dir = Path(tempfile.mkdtemp(prefix="predict-", dir=storage.work_dir))
    try:
        _place(storage, files, work_dir)
        order = PredictOrder(
            model=Path(model.name).name,
            input=f"input{ending}",
            top=top,
            threshold=threshold,
            threads=min(MOST_THREADS, os.cpu_count() or 1),
            parent_pid=os.getpid(),
        )
        return _run(work_dir, order, content)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)


def _place(storage: Storage, files: Sequence[Artifact], folder: Path) -> None:
    for file in files:
        with storage.local_copy(file.sha256) as path:
            # A script chooses the names of its files; folders in them stay inside.
            target = folder / Path(file.name).name
            shutil.copyfile(path, target)


def _run(work_dir: Path, order: PredictOrder, content: bytes) -> PredictionsView:
    (work_dir / order.input).write_bytes(content)
    what = "the model needed too much time or memory for these inputs"
    run_child("service.predictions", order, work_dir=work_dir, what=what)
    answer = Answer.model_validate_json((work_dir / RESULT).read_bytes())
    if answer.document is None:
        raise Unprocessable(str(answer.problem), code="cannot_predict")
    return PredictionsView.model_validate(answer.document)
