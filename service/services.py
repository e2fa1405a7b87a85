"""The parts that endpoints use, built once by `app.py` and injected as a dependency."""

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
    from service.keys.rates import RateLimiter
    from service.keys.ring import KeyRing
    from service.notices.sender import NoticeSender
    from service.provenance.signing import Signer
    from service.queue import Doorbell
    from service.sessions.ring import SessionRing
    from service.storage import Storage
    from service.storage.reserve import Reserve


@dataclass(frozen=True)
class Services:
    """The parts of a running service.

    Attributes:
        storage: Storage of bytes by sha256.
        changes: Notifier of the streams that follow a job.
        doorbell: Sender of messages that wake workers; never blocks.
        views: Cache of jobs as JSON.
        keys: Lookup of API keys.
        rates: Limit of the requests of each key.
        sessions: Lookup of the cookies of browsers.
        validator: Inspector of registered data sets.
        secret: Secret that signs the tokens of attempts.
        signer: Key that signs published files.
        notices: Sender of messages about ended jobs.
        reserve: Room on the disk that lets deletions succeed when it is full.
    """

    settings: Settings
    database: Database
    storage: "Storage"
    changes: Changes
    doorbell: "Doorbell"
    views: "JobViews"
    keys: "KeyRing"
    rates: "RateLimiter"
    sessions: "SessionRing"
    validator: "Validator"
    secret: bytes
    signer: "Signer"
    notices: "NoticeSender"
    reserve: "Reserve"


async def get_services(connection: HTTPConnection) -> Services:
    """Return the services of the application that serves this request."""
    return cast("Services", connection.app.state.services)


Use = Annotated[Services, Depends(get_services)]
"""Annotation for an endpoint's parameter that receives the services."""
