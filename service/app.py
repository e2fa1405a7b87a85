"""Builds the service from its parts, and starts and stops them in order."""

import asyncio
import functools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from anyio import to_thread
from fastapi import APIRouter, FastAPI
from prometheus_client import CollectorRegistry
from sqlmodel import Session
from starlette.routing import BaseRoute

from redkiln import __version__
from service.artifacts import endpoints as artifacts
from service.attempts import endpoints as attempts
from service.attempts.fencing import renew_all
from service.attempts.tokens import load_secret
from service.audit import endpoints as audit
from service.audit.middleware import AuditMiddleware
from service.audit.record import confirm_change, record_change
from service.bundles import endpoints as bundles
from service.changes import Changes, outbox
from service.database import Database
from service.datasets import endpoints as datasets
from service.datasets import sample_endpoints as samples
from service.datasets.rules import ensure_builtins
from service.datasets.validator import Validator
from service.doctor import endpoints as doctor
from service.gpus import endpoints as gpus
from service.health import router as health
from service.housekeeping import Housekeeping
from service.http.access import AccessMiddleware
from service.http.gate import GateMiddleware
from service.http.limits import BodyLimitMiddleware
from service.http.openapi import install_openapi
from service.http.pages import install_pages
from service.http.problems import RequestMiddleware, install_problem_handlers
from service.http.text import TextMiddleware
from service.jobs import curve_endpoints as curves
from service.jobs import endpoints as jobs
from service.jobs import steering_endpoints as steering
from service.jobs.bulk import endpoints as bulk
from service.jobs.insight import endpoints as insight
from service.jobs.views import JobViews
from service.jobs.waiting import decide_jobs_of
from service.keys import endpoints as keys
from service.keys.first import ensure_first_keys
from service.keys.rates import RateLimiter
from service.keys.ring import KeyRing
from service.lookout import Lookout
from service.notices import endpoints as notices
from service.notices.rules import record_ends
from service.notices.sender import NoticeSender
from service.overview import endpoints as overview
from service.overview.hubs import OverviewHubs
from service.page import endpoints as page
from service.predictions import endpoints as predictions
from service.prometheus import endpoints as prometheus
from service.prometheus.requests import MeterMiddleware, RequestMeter
from service.prometheus.state import StateCollector
from service.provenance import endpoints as provenance
from service.provenance.signing import load_signer
from service.queue import Doorbell
from service.registry import endpoints as registry
from service.services import Services
from service.sessions import endpoints as sessions
from service.sessions.ring import SessionRing
from service.settings import Settings
from service.storage import build_storage
from service.storage.reserve import Reserve
from service.tasks import router as tasks
from service.uploads import endpoints as uploads
from service.usage import endpoints as usage
from service.workers import endpoints as workers

log = structlog.get_logger(__name__)

DESCRIPTION = """Train models and get verified ONNX back.

Errors are `application/problem+json` (RFC 9457) with `code`, `errors[].pointer` and `request_id`.
New statuses may be added: use `is_terminal` to find out whether a job has ended.
"""


def create_app(settings: Settings) -> FastAPI:
    """Build the service as an ASGI application; its lifespan starts and stops the threads."""
    app = FastAPI(
        title="Redkiln",
        version=__version__,
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # install_pages serves its own
        redoc_url=None,
    )
    app.state.settings = settings
    app.state.changes = Changes()
    app.state.registry = CollectorRegistry()
    install_problem_handlers(app)
    install_openapi(app)
    install_pages(app)
    app.router.routes.extend(_build_routes())
    app.include_router(page.build_router(settings.page_dir))
    # The middleware added last sees a request first.
    app.add_middleware(TextMiddleware)
    app.add_middleware(AuditMiddleware)
    app.add_middleware(GateMiddleware)
    app.add_middleware(BodyLimitMiddleware, settings=settings)
    app.add_middleware(AccessMiddleware, settings=settings)
    app.add_middleware(RequestMiddleware)
    app.add_middleware(MeterMiddleware, meter=RequestMeter(app.state.registry))
    return app


@functools.cache
def _build_routes() -> list[BaseRoute]:
    """Return the routes that no setting changes, the same for every application of a process.

    FastAPI builds a route when the first request comes. For all routes this takes 80 ms of CPU
    time, which a program with many applications, such as the tests, need not spend for each.
    """
    router = APIRouter()
    for room in (
        jobs, bulk, curves, steering, artifacts, datasets, bundles, workers, gpus, doctor, attempts,
        keys, overview, insight, sessions, usage, samples, predictions, uploads,
        provenance, notices, audit,
    ):  # fmt: skip
        router.include_router(room.router)
    router.include_router(bundles.models_router)  # before the registry: a sha256 is not a name
    router.include_router(registry.router)
    router.include_router(tasks)
    router.include_router(health)
    router.include_router(prometheus.router)
    return router.routes


def build_services(settings: Settings, changes: Changes) -> Services:
    """Open the state folder and the database, upgrade its schema, and build the parts."""
    settings.prepare_state_dir()
    doorbell = Doorbell(settings.broker_url)

    targets = settings.notice_targets

    def record(session: Session) -> None:
        record_ends(session, targets, outbox(session).ended)
        record_change(session)

    def announce(session: Session) -> None:
        confirm_change()
        box = outbox(session)
        changes.publish(box.changed)
        doorbell.ring(box.queued)
        if box.ended:
            sender.wake()

    reserve = Reserve(settings.state_dir / "reserve")
    reserve.release_if_full()  # a start writes, too
    database = Database(
        settings.resolved_database_url,
        before_commit=record,
        after_commit=announce,
        make_room=reserve.release,
    )
    sender = NoticeSender(
        database,
        targets,
        secret=load_secret(settings.keys_dir / "notices.secret").hex().encode(),
        allows_private=settings.notice_private == "on",
    )
    database.upgrade()
    storage = build_storage(settings)
    return Services(
        settings=settings,
        database=database,
        storage=storage,
        changes=changes,
        doorbell=doorbell,
        views=JobViews(database),
        keys=KeyRing(database),
        rates=RateLimiter(per_second=settings.requests_per_second, burst=settings.request_burst),
        sessions=SessionRing(database),
        validator=Validator(database, storage, settings, on_settled=decide_jobs_of),
        secret=load_secret(settings.keys_dir / "secret"),
        signer=load_signer(settings.keys_dir / "signing.key"),
        notices=sender,
        reserve=reserve,
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings, changes = app.state.settings, app.state.changes
    changes.start()
    services = await to_thread.run_sync(build_services, settings, changes)
    housekeeping = Housekeeping(services)
    await to_thread.run_sync(_start, services, housekeeping)
    app.state.services = services
    app.state.overview = OverviewHubs(services)
    gauges = StateCollector(services)
    app.state.registry.register(gauges)
    lookout = asyncio.create_task(Lookout(services.database, changes).run(), name="lookout")
    try:
        yield
    finally:
        lookout.cancel()
        await asyncio.wait([lookout])
        await app.state.overview.close()
        app.state.registry.unregister(gauges)
        await to_thread.run_sync(_stop, services, housekeeping)


def _start(services: Services, housekeeping: Housekeeping) -> None:
    settings, database = services.settings, services.database
    ensure_first_keys(database, settings.keys_dir, worker_key_file=settings.worker_key_file)
    if settings.needs_keys:
        log.info(
            "every_request_needs_a_key",
            admin_key=str(settings.keys_dir / "admin.key"),
            in_a_container="docker compose exec service redkiln keys show",
        )
    database.write(ensure_builtins)
    services.storage.sweep_staging()
    # Workers could not report while the service was down, so no lease may expire because of that.
    database.write(lambda session: renew_all(session, lease_seconds=settings.lease_seconds))
    services.doorbell.start()
    services.validator.start()
    services.notices.start()
    housekeeping.start()


def _stop(services: Services, housekeeping: Housekeeping) -> None:
    services.changes.close()
    services.validator.close()
    services.notices.close()
    housekeeping.close()
    services.doorbell.close()
    services.database.close()
