"""The schema as the code sees it: every room's tables."""

import sqlalchemy as sa
from sqlmodel import SQLModel

from service.artifacts import models as artifacts
from service.attempts import models as attempts
from service.audit import models as audit
from service.blobs import models as blobs
from service.bundles import models as bundles
from service.datasets import models as datasets
from service.gpus import models as gpus
from service.jobs import models as jobs
from service.keys import models as keys
from service.metrics import models as metrics
from service.notices import models as notices
from service.registry import models as registry
from service.sessions import models as sessions
from service.uploads import models as uploads
from service.workers import models as workers

ROOMS = (
    artifacts,
    attempts,
    audit,
    blobs,
    bundles,
    datasets,
    gpus,
    jobs,
    keys,
    metrics,
    notices,
    registry,
    sessions,
    uploads,
    workers,
)
METADATA: sa.MetaData = SQLModel.metadata
