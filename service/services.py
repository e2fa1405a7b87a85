"""What endpoints work with, made once by `app.py` and handed to them as a dependency."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

from service.changes import Changes
from service.database import Database
from service.settings import Settings

if TYPE_CHECKING:
    from service.datasets.validator import Validator
    from service.jobs.views import JobViews
    from service.keys.ring import KeyRing
    from service.queue import Doorbell
    from service.storage import Storage


@dataclass(frozen=True)
class Services:
    """The parts of a running service.

    Attributes:
        storage: bytes by sha256.
        changes: wakes the streams that follow a job.
        doorbell: rings workers; never blocks.
        views: jobs as JSON.
        keys: whose key a request shows.
        validator: inspects registered data sets.
        secret: signs the tokens of attempts.
    """

    settings: Settings
    database: Database
    storage: "Storage"
    changes: Changes
    doorbell: "Doorbell"
    views: "JobViews"
    keys: "KeyRing"
    validator: "Validator"
    secret: bytes


async def get_services(connection: HTTPConnection) -> Services:
    """The services of the application that serves this request."""
    return cast("Services", connection.app.state.services)


Use = Annotated[Services, Depends(get_services)]
"""Annotation of an endpoint's parameter that receives the services."""
