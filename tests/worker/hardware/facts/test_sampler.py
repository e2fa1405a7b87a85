import threading
from pathlib import Path

from redkiln.views.hardware import GpuTelemetry
from tests.worker.hardware.trees import RX_7900_XTX, row_of, write_machine
from worker.hardware.facts.sampler import Sampler


def test_the_newest_reading_and_a_bounded_history_are_kept(tmp_path):
    machine = write_machine(tmp_path, row_of(RX_7900_XTX, 2))
    sampler = Sampler({"a": machine.device_dir(0), "b": machine.device_dir(1)}, history_length=3)
    assert sampler.newest("a") is None
    for percent in range(5):
        (machine.device_dir(0) / "gpu_busy_percent").write_text(f"{percent}\n")
        sampler.sample()
    assert [reading.busy_ratio for reading in sampler.history("a")] == [0.02, 0.03, 0.04]
    assert sampler.newest("a").busy_ratio == 0.04
    assert sampler.newest("b").busy_ratio == 0.05
    assert sampler.newest("no card") is None


def test_the_cost_of_a_reading_is_recorded(tmp_path):
    seconds = iter([0.25, 0.5, 0.125])
    sampler = Sampler(
        {"a": tmp_path / "a", "b": tmp_path / "b"},
        read=lambda _: GpuTelemetry(read_seconds=next(seconds)),
    )
    assert sampler.cost_seconds == 0
    sampler.sample()
    assert sampler.cost_seconds == 0.75


def test_a_card_with_several_partitions_is_read_once():
    read = []
    card = Path("card0/device")
    sampler = Sampler(
        {"p0": card, "p1": card}, read=lambda path: read.append(path) or GpuTelemetry()
    )
    sampler.sample()
    assert read == [card]
    assert sampler.newest("p0") is sampler.newest("p1")


def test_a_hanging_card_delays_neither_other_cards_nor_the_end():
    release, seen = threading.Event(), threading.Semaphore(0)

    def read(device_dir):
        if device_dir.name == "hanging":
            release.wait(60)
        else:
            seen.release()
        return GpuTelemetry()

    devices = {name: Path(name) for name in ("hanging", "well")}
    sampler = Sampler(devices, interval_seconds=0.001, read=read)
    sampler.start()
    try:
        for _ in range(3):
            assert seen.acquire(timeout=60)
        assert sampler.newest("well") is not None
        assert sampler.newest("hanging") is None
        sampler.stop(timeout_seconds=0.01)
    finally:
        release.set()


def test_sensors_are_read_between_start_and_stop():
    seen = threading.Semaphore(0)

    def read(_):
        seen.release()
        return GpuTelemetry()

    with Sampler({"a": Path("a")}, interval_seconds=0.001, read=read) as sampler:
        for _ in range(3):
            assert seen.acquire(timeout=60)
    count = len(sampler.history("a"))
    assert count >= 3
    assert len(sampler.history("a")) == count
