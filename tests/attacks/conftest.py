"""The service of the fast tests, to attack it."""

from tests.service.conftest import (  # noqa: F401  # fixtures
    app,
    client,
    expire,
    first_state,
    job,
    postgres,
    serve,
    services,
    settings,
    state_dir,
    submit,
    worker,
    worker_key,
)
