from pathlib import Path

import pytest

from worker.agent.kernel_cache import build_cache_environment, build_cache_key

BASE = {"arch": "gfx1100", "torch_version": "2.13.0", "hip_version": "7.15", "slot": 0}


@pytest.mark.parametrize(
    "change",
    [{"arch": "gfx1201"}, {"torch_version": "2.14.0"}, {"hip_version": "7.16"}, {"slot": 1}],
)
def test_another_arch_release_or_slot_has_another_folder(change):
    assert build_cache_key(**BASE) != build_cache_key(**(BASE | change))


def test_a_key_is_a_path_of_plain_names():
    assert build_cache_key(**BASE) == "gfx1100/torch-2.13.0-rocm-7.15/slot-0"
    strange = build_cache_key(arch=None, torch_version="../x y", hip_version=None, slot=2)
    assert strange == "cpu/torch-.._x_y-rocm-none/slot-2"


def test_every_cache_lies_in_the_folder():
    environment = build_cache_environment(Path("/cache/a"), {})
    assert all(place.startswith("/cache/a/") for place in environment.values())
    assert {name.split("_")[0] for name in environment} == {
        "MIOPEN", "TORCHINDUCTOR", "TRITON", "PYTORCH"
    }  # fmt: skip


def test_a_place_that_is_set_already_is_kept():
    environment = build_cache_environment(Path("/cache"), {"TRITON_CACHE_DIR": "/mine"})
    assert "TRITON_CACHE_DIR" not in environment
    assert "MIOPEN_USER_DB_PATH" in environment
