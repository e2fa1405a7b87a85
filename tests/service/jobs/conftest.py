"""What tests that steer jobs share."""

import pytest


@pytest.fixture
def steer(client):
    def steer(job_id, verb, **body):
        return client.post(f"/v1/jobs/{job_id}/{verb}", json=body or None)

    return steer


@pytest.fixture
def checkpoints(client):
    def checkpoints(job_id):
        return client.get(f"/v1/jobs/{job_id}/checkpoints").json()["data"]

    return checkpoints
