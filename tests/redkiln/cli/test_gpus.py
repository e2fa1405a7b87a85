import io

import pytest
from rich.console import Console

from redkiln.cli import gpus
from redkiln.cli.gpus import GpuTable
from redkiln.views.hardware import GpuExclusion, GpuFacts, GpuTelemetry, WorkerGpu

GIB = 2**30
WHY = GpuExclusion(code="apu_beside_discrete", message="It shares the host's memory.")


def gpu(key="0000:03:00.0", *, telemetry=None, excluded=None, job_id=None, **facts):
    facts = {"name": "Radeon RX 7900 XTX", "gfx": "gfx1100", "vram_bytes": 24 * GIB, **facts}
    return WorkerGpu(
        id=f"wrk_1/{key}",
        worker_id="wrk_1",
        hostname="box",
        key=key,
        facts=GpuFacts(**facts),
        telemetry=telemetry,
        excluded=excluded,
        job_id=job_id,
    )


def draw(*listed, width=120, encoding="utf-8"):
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width).print(GpuTable(listed))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def test_a_gpu_is_seen_at_a_glance():
    busy = GpuTelemetry(
        busy_ratio=0.98,
        vram_used_bytes=int(18.2 * GIB),
        power_watts=312.0,
        edge_celsius=60.0,
        junction_celsius=71.0,
        core_clock_hz=2_480_000_000,
    )
    line = draw(gpu(telemetry=busy, job_id="job_1")).splitlines()[2]
    for words in ("RX 7900 XTX", "gfx1100", "98 %", "18.2/24.0 GiB", "312 W", "71 °C", "job_1"):
        assert words in line


def test_an_unknown_value_is_a_dash_and_never_a_zero():
    line = draw(gpu(vram_bytes=None)).splitlines()[2]
    assert "0" not in line.replace("7900", "").replace("gfx1100", "").replace("0000:03:00.0", "")
    assert line.count("-") >= 5


def test_an_excluded_gpu_is_explained_below_the_table():
    drawn = draw(gpu(), gpu("0000:10:00.0", excluded=WHY))
    assert "excluded" in drawn
    assert "0000:10:00.0 of box: It shares the host's memory." in drawn
    assert "free" in drawn


def test_the_memory_of_an_apu_is_marked_as_the_hosts():
    apu = gpu(
        is_apu=True,
        is_memory_approximate=True,
        vram_bytes=31 * GIB,
        telemetry=GpuTelemetry(gtt_used_bytes=GIB, vram_used_bytes=9 * GIB),
    )
    assert "1.0/~31.0 GiB" in draw(apu)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(width):
    drawn = draw(gpu(job_id="job_0123456789abcdefghijkl"), width=width)
    assert max(map(len, drawn.splitlines())) <= width


def test_a_terminal_without_unicode_gets_no_degree_signs():
    assert "71 C" in draw(gpu(telemetry=GpuTelemetry(edge_celsius=71.0)), encoding="ascii")


def test_watching_continues_until_interrupted(redkiln, monkeypatch):
    looks = []

    def pause(_seconds):
        looks.append(1)
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(gpus.time, "sleep", pause)
    done = redkiln("gpus", "--watch", "--json")
    assert done.code == 0
    assert len(done.lines) == 3
    assert done.lines[0][0]["facts"]["gfx"] == "gfx1100"


@pytest.mark.parametrize("named", [(), ("0000:03:00.0",), ("wrk_1/0000:03:00.0",)])
def test_freeing_a_gpu_waits_until_it_is_free(redkiln, fake, monkeypatch, named):
    monkeypatch.setattr(gpus, "FREE_LOOK_SECONDS", 0)
    done = redkiln("free", *named)
    assert done.code == 0
    assert "free in about 4 s" in done.err
    assert "wrk_1/0000:03:00.0 is free" in done.out
    assert fake.steered == [("free", "0000:03:00.0")] * 3


def test_a_gpu_is_given_back(redkiln, fake):
    done = redkiln("give-back")
    assert "may get jobs again" in done.out
    assert fake.steered == [("give-back", "0000:03:00.0")]


def test_an_unknown_gpu_is_named_with_the_known_ones(redkiln, fake):
    done = redkiln("free", "0000:99:00.0")
    assert done.code == 2
    assert "Name one of: wrk_1/0000:03:00.0" in done.err
    assert fake.steered == []
