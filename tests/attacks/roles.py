"""A service whose every request needs a key, and a key of each role."""

import pytest

from service.settings import Settings


@pytest.fixture
def key_settings(state_dir):
    """Settings of a service whose every request needs a key."""
    return Settings(state_dir=state_dir, min_free_bytes=0, reap_seconds=3600, auth="keys")


@pytest.fixture
def role_keys(client, settings):
    """A key of each role; a stranger has none."""
    admin = (settings.keys_dir / "admin.key").read_text().strip()
    headers = {"Authorization": f"Bearer {admin}"}
    user = client.post("/v1/keys", json={"name": "fuzz"}, headers=headers).json()["secret"]
    worker = (settings.keys_dir / "worker.key").read_text().strip()
    return {"stranger": None, "user": user, "worker": worker, "admin": admin}
