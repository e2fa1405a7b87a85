import stat
from datetime import UTC, datetime, timedelta

import pytest

from redkiln.failure import FailureCode
from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuTelemetry
from worker.hardware.health.health import (
    GIB,
    GpuRecord,
    HealthFolder,
    Memory,
    exclude_after,
    exclude_held,
    is_due,
    is_held,
    limit_of,
    plan_share,
    read_memory,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
WHY = GpuExclusion(code="faulted", message="it faulted")


@pytest.mark.parametrize(
    ("is_apu", "telemetry", "memory"),
    [
        (False, GpuTelemetry(vram_used_bytes=1, vram_total_bytes=9), Memory(1, 9)),
        (None, GpuTelemetry(vram_used_bytes=1, vram_total_bytes=9), Memory(1, 9)),
        (True, GpuTelemetry(vram_used_bytes=1, vram_total_bytes=9), None),
        (True, GpuTelemetry(gtt_used_bytes=2, gtt_total_bytes=8), Memory(2, 8)),
        (False, GpuTelemetry(vram_used_bytes=1), None),
        (False, GpuTelemetry(vram_used_bytes=0, vram_total_bytes=0), None),
        (False, None, None),
    ],
)
def test_the_memory_of_an_apu_is_its_share_of_the_hosts(is_apu, telemetry, memory):
    assert read_memory(GpuFacts(is_apu=is_apu), telemetry) == memory


@pytest.mark.parametrize(
    ("total", "display", "apu", "allowed", "headroom"),
    [
        (24, False, False, 0.72, 0),
        (8, False, False, 0.5, 0),
        (192, False, False, 5.76, 0),
        (24, True, False, 6, 1),
        (8, True, False, 2, 0.8),
        (4, True, False, 2, 0.4),
        (30, False, True, 7.5, 1),
    ],
)
def test_only_a_card_with_a_desktop_gets_headroom(total, display, apu, allowed, headroom):
    share = plan_share(Memory(0, total * GIB), drives_display=display, is_apu=apu)
    assert share.allowed_bytes / GIB == pytest.approx(allowed)
    assert share.headroom_bytes / GIB == pytest.approx(headroom)
    assert bool(share.why) is bool(headroom)


def test_a_job_next_to_a_desktop_leaves_headroom():
    memory = Memory(3 * GIB, 24 * GIB)
    share = plan_share(memory, drives_display=True, is_apu=False)
    assert limit_of(memory, share) == 20 * GIB
    assert "1.0 GiB of it stay free because it drives a screen" in share.why
    assert limit_of(memory, plan_share(memory, drives_display=False, is_apu=False)) is None
    full = Memory(24 * GIB, 24 * GIB)
    assert limit_of(full, plan_share(full, drives_display=True, is_apu=False)) == 0


def test_memory_counts_as_held_above_its_limit_if_known():
    assert is_held(Memory(2, 9), limit_bytes=1)
    assert not is_held(Memory(1, 9), limit_bytes=1)
    assert not is_held(None, limit_bytes=1)
    assert not is_held(Memory(2, 9), limit_bytes=None)


def test_held_memory_is_reported_with_its_numbers():
    text = exclude_held(Memory(GIB, 24 * GIB), Memory(9 * GIB, 24 * GIB), limit_bytes=2 * GIB)
    for words in ("9.0 GiB of 24.0 GiB", "before it, 1.0 GiB were", "2.0 GiB or less"):
        assert words in text.message
    assert "before" not in exclude_held(None, Memory(9, 24), limit_bytes=2).message


@pytest.mark.parametrize("code", [*FailureCode, None])
def test_only_a_fault_or_a_hang_in_training_excludes_the_gpu(code):
    expected = {FailureCode.GPU_FAULT: "faulted", FailureCode.NO_PROGRESS: "hung"}.get(code)
    why = exclude_after(code)
    assert (why.code if why else None) == expected


@pytest.mark.parametrize(
    ("needs", "num_failed", "seconds", "due"),
    [
        ("memory", 0, 14, False),
        ("memory", 50, 15, True),
        ("self_test", 0, 59, False),
        ("self_test", 0, 60, True),
        ("self_test", 2, 239, False),
        ("self_test", 2, 240, True),
        ("self_test", 40, 3600, True),
    ],
)
def test_each_failed_test_delays_the_next_check(needs, num_failed, seconds, due):
    record = GpuRecord(excluded=WHY, needs=needs, num_failed=num_failed, checked_at=NOW)
    assert is_due(record, now=NOW + timedelta(seconds=seconds)) is due


def test_a_gpu_in_use_is_not_checked():
    assert not is_due(GpuRecord(checked_at=NOW), now=NOW + timedelta(days=1))


def test_a_record_counts_failed_tests_until_the_gpu_recovers():
    record = GpuRecord().admit("torch 2.13", denied={}).admit("torch 2.14", denied={"fp16": "off"})
    assert record.tested == {"torch 2.13": {}, "torch 2.14": {"fp16": "off"}}
    for number in range(3):
        record = record.exclude(WHY, needs="self_test")
        assert (record.num_failed, record.tested) == (number, {})
    assert record.readmit().excluded is None
    tested = {"torch 2.13": {}}
    held = GpuRecord(tested=tested).exclude(WHY, needs="memory", limit_bytes=5)
    assert (held.tested, held.readmit().tested, held.limit_bytes) == (tested, tested, 5)


def test_records_outlive_the_process_and_a_damaged_one_is_empty(tmp_path):
    folder = HealthFolder(tmp_path / "gpus")
    record = GpuRecord().exclude(WHY, needs="self_test")
    folder.save("0000:03:00.0", record)
    assert HealthFolder(tmp_path / "gpus").load("0000:03:00.0") == record
    short = GpuRecord(checked_at=NOW)
    folder.save("0000:03:00.0", short)
    assert folder.load("0000:03:00.0") == short
    path = tmp_path / "gpus" / "0000:03:00.0.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    path.write_text('{"excluded": ')
    assert folder.load("0000:03:00.0").excluded is None
    path.unlink()
    assert folder.load("0000:03:00.0").excluded is None
