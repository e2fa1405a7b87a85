from dataclasses import replace
from datetime import UTC, datetime

import pytest

from redkiln.views.self_test import SelfTestReport
from worker.hardware.health.selftest_cache import (
    CachedReports,
    SelfTestKey,
    choose_precisions,
    key_of_report,
    select_settings,
)

KEY = SelfTestKey("gfx1100", "0000:03:00.0", "2.13.0+rocm7.2", "7.2.1", "linux 6.18", {"A": "1"})


def report(**fields):
    return SelfTestReport(at=datetime.now(UTC), device="cuda:0", status="passed", **fields)


def test_a_report_is_found_again(tmp_path):
    cache = CachedReports(tmp_path / "deep" / "folder")
    assert cache.find(KEY) is None
    cache.save(KEY, report(name="a card"))
    assert cache.find(KEY).name == "a card"
    assert [p.suffix for p in (tmp_path / "deep" / "folder").iterdir()] == [".json"]
    cache.drop(KEY)
    cache.drop(KEY)
    assert cache.find(KEY) is None


@pytest.mark.parametrize(
    "change",
    [
        {"gfx": "gfx1030"},
        {"gpu": "0000:04:00.0"},
        {"torch": "2.14.0"},
        {"rocm": "10.0"},
        {"driver": "linux 6.19"},
        {"settings": {"A": "0"}},
        {"is_quick": True},
    ],
)
def test_a_gpu_is_tested_again_when_anything_has_changed(tmp_path, change):
    cache = CachedReports(tmp_path)
    cache.save(KEY, report())
    assert cache.find(replace(KEY, **change)) is None


def test_a_truncated_report_does_not_count(tmp_path):
    cache = CachedReports(tmp_path)
    cache.save(KEY, report())
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:20])
    assert cache.find(KEY) is None


def test_a_report_is_stored_under_its_key():
    versions = {"torch": KEY.torch, "rocm": KEY.rocm, "driver": KEY.driver}
    made = report(gfx=KEY.gfx, pci_address=KEY.gpu, versions=versions, settings={"A": "1"})
    assert key_of_report(made).digest == KEY.digest


def test_only_variables_that_choose_kernels_are_part_of_a_key():
    environ = {"HOME": "/root", "TORCH_BLAS_PREFER_HIPBLASLT": "0", "ROCR_VISIBLE_DEVICES": "1"}
    assert select_settings(environ) == {"TORCH_BLAS_PREFER_HIPBLASLT": "0"}


@pytest.mark.parametrize(
    ("kind", "gfx", "expected"),
    [
        ("cpu", None, ("fp32",)),
        ("cuda", "sm_75", ("fp32", "fp16")),
        ("cuda", "sm_90", ("fp32", "fp16", "bf16")),
        ("cuda", "gfx1030", ("fp32", "fp16")),  # bf16 would end the process
        ("cuda", "gfx1100", ("fp32", "fp16", "bf16")),
        ("cuda", "gfx942", ("fp32", "fp16", "bf16")),
        ("cuda", "gfx9999", ("fp32",)),
        ("cuda", None, ("fp32",)),
    ],
)
def test_the_tested_types_are_those_of_the_target(kind, gfx, expected):
    assert choose_precisions(kind, gfx=gfx) == expected
