"""Published files of a job, and code bundles, as the API shows them."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from pydantic import BaseModel


class ArtifactView(BaseModel):
    """An immutable published file of a job.

    Attributes:
        kind: model, manifest, parity, metrics, figure, report, profile, benchmark, checkpoint or
            log.
        verified: Whether a model passed its check; None for other kinds.
    """

    id: str
    job_id: str
    name: str
    kind: str
    media_type: str
    size_bytes: int
    sha256: str
    verified: bool | None = None
    created_at: datetime
    url: str


def find_data_file(model: ArtifactView, listed: Iterable[ArtifactView]) -> ArtifactView | None:
    """Return the file with the weights of an ONNX file; None if the file contains them.

    `torch.onnx.export` writes the weights into `NAME.onnx.data` next to `NAME.onnx` by default.

    Args:
        model: Artifact of any kind.
        listed: All artifacts of its job.
    """
    name = f"{model.name}.data"
    return next((one for one in listed if model.kind == "model" and one.name == name), None)


def add_data_files(
    chosen: Sequence[ArtifactView], listed: Iterable[ArtifactView]
) -> list[ArtifactView]:
    """Return chosen artifacts, each ONNX file followed by the file with its weights, if any."""
    listed = list(listed)
    names = {one.name for one in chosen}
    added = list[ArtifactView]()
    for one in chosen:
        data = find_data_file(one, listed)
        added += [one] if data is None or data.name in names else [one, data]
    return added


class BundleView(BaseModel):
    """The uploaded code of a folder, which scripts name by its digest."""

    sha256: str
    size_bytes: int
    created_at: datetime
