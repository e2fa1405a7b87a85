"""Power fails: whatever was not synced is gone, and everything that was acknowledged is there."""

import hashlib

import pytest

from native.stack import Stack
from tests.faults.conftest import FaultySite
from tests.faults.library import Faults
from tests.faults.power import cut_power, make_shadow
from tests.faults.proxy import Proxy
from tests.integration.conftest import FAKES, SHORT_TIMES

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("faults-power")]

SHORT_LEASE = {"REDKILN_LEASE_SECONDS": "10"}
"""The job waits for its end, because the power failure takes the worker's identity."""


@pytest.fixture
def shadow(tmp_path):
    return make_shadow(tmp_path / "shadow")


@pytest.fixture
def site(library, tmp_path, shadow):
    state = tmp_path / "state"
    faults = Faults(library, tmp_path / "control", below=state, shadow=shadow)
    proxy = Proxy()
    environment = {**SHORT_TIMES, **FAKES, **faults.environment, **SHORT_LEASE}
    with Stack(state, environment=environment) as stack:
        site = FaultySite(stack, proxy, service_faults=faults, worker_faults=faults, is_small=False)
        yield site
        site.close()
    proxy.close()


def test_the_last_checkpoint_and_all_that_was_acknowledged_survive(site, shadow, tmp_path):
    done = site.submit(epochs=1)
    site.succeed_whole(done, steps=10)
    key = site.stack.admin_key
    rows = b"a,b,class\n1,2,x\n3,4,y\n" * 20
    headers = {"Content-Type": "text/csv"}
    uploaded = site.ask("POST", "/v1/datasets?name=table", content=rows, headers=headers)
    assert uploaded.status_code in (200, 201, 202), uploaded.text
    training = site.submit(epochs=400)
    site.wait_for_training(training, checkpoints=3)
    acknowledged = site.ask_to_train("acknowledged").json()["id"]
    stack = site.stack
    for part in (stack.workers[0], stack.service):
        part.kill()
    lost = cut_power(stack.state_dir, shadow)
    assert lost, "every byte was synced"
    stack.service.restart()
    stack.wait_for_service()
    assert stack.admin_key == key
    committed = site.client.checkpoints(training)[0].step
    assert committed == site.committed_steps(training)[-1]
    for blob in stack.state_dir.glob("blobs/*/*"):
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    assert uploaded.json()["id"] in {one.id for one in site.client.datasets()}
    assert {done, training, acknowledged} <= {job.id for job in site.client.jobs()}
    (model,) = (one for one in site.client.artifacts(done) if one.name == "model.onnx")
    site.client.download(model, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"onnx" * 1000
    stack.workers[0].restart()
    stack.wait_for_worker(stack.workers[0])
    site.wait_for(lambda: len(site.statuses(training)) > 1)
    assert site.client.job(training).attempts[1].resumed_from_step == committed
    site.wait_for(lambda: site.client.job(training).progress.step > committed)
    seqs = [event.seq for event in site.client.events(training)]
    assert seqs == list(range(1, len(seqs) + 1))
