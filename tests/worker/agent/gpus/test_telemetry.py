"""A real agent on a made machine reports its GPUs and its trainer's events."""

import pytest

from tests.worker.hardware.trees import RAPHAEL, RX_7900_XTX, put, write_machine


@pytest.fixture
def machine(tmp_path):
    return write_machine(tmp_path / "machine", [RX_7900_XTX, RAPHAEL])


@pytest.fixture
def agent(start_agent, machine, show_gpus):
    show_gpus([RX_7900_XTX, RAPHAEL])
    return start_agent(topology_dir=machine.topology_dir, drm_dir=machine.drm_dir)


def newest_gpus(service):
    return {gpu.key: gpu for gpu in service.statuses[-1].gpus} if service.statuses else {}


def test_gpus_are_reported_with_their_sensors_and_exclusions(service, agent):
    service.wait_for(lambda: any(gpu.facts.telemetry for gpu in newest_gpus(service).values()))
    gpus = newest_gpus(service)
    card, apu = gpus[RX_7900_XTX.pci_address], gpus[RAPHAEL.pci_address]
    assert (card.facts.gfx, card.facts.telemetry.power_watts, card.excluded) == (
        "gfx1100", 68.0, None,
    )  # fmt: skip
    assert apu.excluded.code == "apu_beside_discrete"
    assert service.statuses[-1].sampling_seconds > 0
    assert service.hellos[0].boot_id == service.statuses[-1].boot_id


def test_sensors_are_live(service, agent, machine):
    service.wait_for(lambda: newest_gpus(service))
    put(machine.device_dir(0) / "gpu_busy_percent", "93\n")
    key = RX_7900_XTX.pci_address
    service.wait_for(
        lambda: (
            (telemetry := newest_gpus(service)[key].facts.telemetry) is not None
            and telemetry.busy_ratio == 0.93
        )
    )


def test_a_host_without_gpus_sends_its_status_once(service, start_agent, tmp_path):
    start_agent(topology_dir=tmp_path / "none", drm_dir=tmp_path / "none")
    attempt_id = service.add_job(steps=5)
    service.wait_for_finish(attempt_id)
    assert [status.gpus for status in service.statuses] == [[]]


def test_a_trainers_cpu_and_memory_use_is_sent_with_its_reports(service, start_agent):
    attempt_id = service.add_job(steps=2000, step_seconds=0.02)
    start_agent()
    # A ratio needs two readings, and a busy machine may take seconds for them.
    service.wait_for(lambda: len(telemetry_of(service)) == 2)
    service.cancelled.add(attempt_id)
    assert service.wait_for_finish(attempt_id).outcome == "cancelled"
    points = telemetry_of(service)
    assert set(points) == {"host/cpu_ratio", "host/memory_used_bytes"}
    times = [at for at, _ in points["host/memory_used_bytes"]]
    assert times == sorted(set(times))
    assert all(0 <= ratio <= 1 for _, ratio in points["host/cpu_ratio"])
    assert all(value > 1_000_000 for _, value in points["host/memory_used_bytes"])


def test_a_service_without_statuses_still_gets_its_jobs_done(service, start_agent, machine):
    service.status = lambda _: (404, {"code": "not_found"})
    start_agent(topology_dir=machine.topology_dir, drm_dir=machine.drm_dir)
    attempt_id = service.add_job(steps=3)
    assert service.wait_for_finish(attempt_id).outcome == "succeeded"


def telemetry_of(service):
    """All points that were reported, by the name of their series."""
    points = {}
    for _, _, report in list(service.reports):
        for name, some in report.telemetry.items():
            points.setdefault(name, []).extend(some)
    return points
