"""Published files of a job, and code bundles, as the API shows them."""

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


class BundleView(BaseModel):
    """The uploaded code of a folder, which scripts name by its digest."""

    sha256: str
    size_bytes: int
    created_at: datetime
