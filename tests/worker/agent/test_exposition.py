import socket
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuState, GpuTelemetry
from tests.worker.hardware.trees import RX_7900_XTX, write_machine
from worker.agent.exposition import WorkerState, serve_metrics

CARD = ("gpu", "0000:03:00.0")


def read(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_worker_exposes_its_gpus_in_base_units(port):
    telemetry = GpuTelemetry(power_watts=212.0, junction_celsius=71.0, gtt_used_bytes=1024)
    gpu = GpuState(
        key=CARD[1],
        facts=GpuFacts(telemetry=telemetry),
        attempt_id="att_1",
        excluded=GpuExclusion(code="memory_held", message="9 GiB are in use"),
    )
    state = WorkerState("wrk_00000001", [gpu], slots=2, busy_slots=1, sampling_seconds=0.0004)
    close = serve_metrics(f"127.0.0.1:{port}", lambda: state)
    try:
        samples = read(port)
    finally:
        close()
    assert samples["redkiln_gpu_power_watts", CARD] == 212
    assert samples["redkiln_gpu_temperature_celsius", CARD, ("sensor", "junction")] == 71
    assert samples["redkiln_gpu_memory_used_bytes", CARD, ("kind", "gtt")] == 1024
    assert samples["redkiln_gpu_excluded", ("code", "memory_held"), CARD] == 1
    assert samples["redkiln_gpu_leased", CARD] == 1
    assert samples["redkiln_worker_slots",] == 2
    assert samples["redkiln_worker_busy_slots",] == 1
    assert samples["redkiln_gpu_sampling_seconds",] == 0.0004
    assert not any(name == "redkiln_gpu_busy_ratio" for name, *_ in samples)


def test_an_agent_is_scraped_while_it_runs_and_not_after(service, start_agent, tmp_path, port):
    machine = write_machine(tmp_path / "machine", [RX_7900_XTX])
    agent = start_agent(
        topology_dir=machine.topology_dir,
        drm_dir=machine.drm_dir,
        metrics_bind=f"127.0.0.1:{port}",
    )
    service.wait_for(lambda: read(port).get(("redkiln_gpu_power_watts", CARD)) == 68.0)
    agent.ask_to_stop()
    agent.join()
    with pytest.raises(OSError, match="refused"):
        read(port)


def test_an_address_in_use_is_an_error_at_the_start(port):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            serve_metrics(f"127.0.0.1:{port}", lambda: WorkerState("wrk_1", [], 1, 0, 0.0))
