"""Service and worker as processes on a made machine: GPUs, who uses them, what they do."""

import json
import sys

import pytest

from tests.integration.conftest import start_site
from tests.integration.made_machine import TRAINER, settings_on
from tests.worker.hardware.trees import RAPHAEL, RX_7900_XTX, put, write_machine

pytestmark = pytest.mark.integration

CARD, APU = RX_7900_XTX.pci_address, RAPHAEL.pci_address


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return write_machine(tmp_path_factory.mktemp("machine"), [RX_7900_XTX, RAPHAEL])


@pytest.fixture(scope="module")
def site(tmp_path_factory, machine):
    command = json.dumps([sys.executable, TRAINER, "train"])
    settings = settings_on(machine, archs=[(RX_7900_XTX, "gfx1100"), (RAPHAEL, "gfx1036")])
    yield from start_site(tmp_path_factory, REDKILN_TRAINER_COMMAND=command, **settings)


def gpus_of(site):
    return {gpu.key: gpu for gpu in site.client.gpus()}


def test_a_job_is_followed_from_its_gpu_to_its_curves(site, machine):
    gpus = site.wait_for(
        lambda: (found := gpus_of(site)) and CARD in found and found[CARD].telemetry and found
    )
    assert (gpus[CARD].facts.gfx, gpus[CARD].facts.cu_count) == ("gfx1100", 96)
    assert (gpus[CARD].telemetry.power_watts, gpus[CARD].excluded) == (68.0, None)
    assert gpus[APU].excluded.code == "apu_beside_discrete"
    (worker,) = site.client.workers()
    assert [gpu.excluded and gpu.excluded.code for gpu in worker.gpus] == [
        None, "apu_beside_discrete",
    ]  # fmt: skip

    job_id = site.submit(resources={"device": "gpu"})
    site.wait_for(lambda: gpus_of(site)[CARD].job_id == job_id)
    put(machine.device_dir(0) / "gpu_busy_percent", "93\n")

    def is_busy():
        telemetry = gpus_of(site)[CARD].telemetry  # null while the machine is too slow to tell
        return telemetry is not None and telemetry.busy_ratio == 0.93

    site.wait_for(is_busy)

    def is_recorded():
        series = {item.name: item for item in site.client.telemetry(job_id)}
        return "gpu/0/busy_ratio" in series and 0.93 in series["gpu/0/busy_ratio"].values

    site.wait_for(is_recorded)
    series = {item.name: item for item in site.client.telemetry(job_id)}
    assert {"gpu/0/power_watts", "gpu/0/vram_used_bytes", "host/memory_used_bytes"} <= set(series)
    assert not any(name.startswith("gpu/1/") for name in series)
    times = series["gpu/0/power_watts"].at_ms
    assert times == sorted(set(times))

    site.client.cancel(job_id)
    assert site.wait_for_end(job_id).status == "cancelled"
    site.wait_for(lambda: gpus_of(site)[CARD].job_id is None)
    assert site.client.telemetry(job_id)
    assert len([e for e in site.events(job_id, "phase") if e.data["phase"] == "preparing"]) == 1
