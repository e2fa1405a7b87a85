from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from redkiln.views.hardware import GpuFacts
from worker.hardware import program
from worker.hardware.fade import LEFT_ALONE, apply_fade_patches

FORBIDDEN = ("device_count", "current_device", "set_device", "get_device_properties")
RX_6800_XT = GpuFacts(gfx="gfx1030", node=1, cu_count=72, wgp_count=36, wave_size=32, is_apu=False)


def fake_rocm(*, is_initialized=False):
    """As much of a ROCm build as is looked at; its properties can be changed, unlike the real."""
    box = {"flash": True, "efficient": True, "math": True}

    def switch(name):
        return lambda value: box.update({name: value})

    cuda_backend = SimpleNamespace(
        enable_flash_sdp=switch("flash"),
        flash_sdp_enabled=lambda: box["flash"],
        enable_mem_efficient_sdp=switch("efficient"),
        mem_efficient_sdp_enabled=lambda: box["efficient"],
        enable_math_sdp=switch("math"),
        math_sdp_enabled=lambda: box["math"],
    )
    properties = SimpleNamespace(warp_size=32, multi_processor_count=36)
    cuda = SimpleNamespace(
        is_initialized=lambda: is_initialized,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda _: None,
        get_device_properties=lambda _: properties,
    )
    fake = SimpleNamespace(
        __version__="2.13.0+rocm10.0",
        version=SimpleNamespace(hip="10.0.1"),
        cuda=cuda,
        backends=SimpleNamespace(cuda=cuda_backend),
    )
    return fake, box, properties


@pytest.fixture
def one_rx_6800_xt(monkeypatch):
    monkeypatch.setattr(program, "discover_gpus", lambda: [RX_6800_XT])


def test_values_that_fade_faked_are_unchanged_in_the_real_torch():
    before = {name: getattr(torch.cuda, name) for name in FORBIDDEN}
    environ = {}
    report = apply_fade_patches(torch, environ=environ)
    assert {name: getattr(torch.cuda, name) for name in FORBIDDEN} == before
    assert not {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"} & set(
        environ
    )
    assert not any(name.startswith("FADE") for name in environ)
    report.undo()


def test_the_correct_part_is_applied_and_can_be_undone(one_rx_6800_xt):
    fake, box, properties = fake_rocm()
    before = {name: getattr(fake.cuda, name) for name in FORBIDDEN}
    environ = {"MIOPEN_LOG_LEVEL": "6"}
    report = apply_fade_patches(fake, environ=environ)
    assert box == {"flash": False, "efficient": False, "math": True}
    assert environ["PYTORCH_HIP_ALLOC_CONF"] == "garbage_collection_threshold:0.8"
    assert environ["MIOPEN_LOG_LEVEL"] == "6"
    assert vars(properties) == {"warp_size": 32, "multi_processor_count": 36}
    assert {name: getattr(fake.cuda, name) for name in FORBIDDEN} == before
    assert report.too_late == ()
    report.undo()
    assert box == {"flash": True, "efficient": True, "math": True}


def test_variables_that_come_too_late_are_reported_and_not_set(one_rx_6800_xt):
    fake, _, _ = fake_rocm(is_initialized=True)
    environ = {}
    report = apply_fade_patches(fake, environ=environ)
    assert environ == {}
    assert "PYTORCH_HIP_ALLOC_CONF" in report.too_late
    assert "Too late" in str(report)


def test_the_report_gives_a_reason_and_source_for_each_refused_change(one_rx_6800_xt):
    fake, _, _ = fake_rocm()
    text = str(apply_fade_patches(fake, environ={}))
    for item in LEFT_ALONE:
        assert item.why in text
        assert item.source in text
    for word in ("warp_size", "multi_processor_count", "device_count", "current_device",
                 "HIP_VISIBLE_DEVICES=0"):  # fmt: skip
        assert word in text


def test_the_page_says_the_same_of_fade():
    page = (Path(__file__).parents[3] / "docs" / "patches.md").read_text().replace("\\_", "_")
    for item in LEFT_ALONE:
        assert f"| {item.what} | {item.why} ({item.source}) |" in page
