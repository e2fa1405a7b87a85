"""The schema as the code sees it: every room's tables."""

import sqlalchemy as sa
from sqlmodel import SQLModel

from service.artifacts import tables as artifacts
from service.attempts import tables as attempts
from service.blobs import tables as blobs
from service.bundles import tables as bundles
from service.datasets import tables as datasets
from service.jobs import tables as jobs
from service.keys import tables as keys
from service.metrics import tables as metrics
from service.workers import tables as workers

ROOMS = (artifacts, attempts, blobs, bundles, datasets, jobs, keys, metrics, workers)
METADATA: sa.MetaData = SQLModel.metadata
