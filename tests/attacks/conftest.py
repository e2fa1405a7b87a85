"""The service of the fast tests, to attack it."""

import pytest

from tests.attacks.roles import key_settings, role_keys  # noqa: F401  # fixtures
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
from tests.service.datasets.conftest import (  # noqa: F401  # fixtures
    archive,
    image_files,
    settled,
)


@pytest.fixture
def fork_children():
    """Does nothing: what reads users' data starts as it does in a service."""
