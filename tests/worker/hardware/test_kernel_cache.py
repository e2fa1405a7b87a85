import pytest

from worker.hardware.kernel_cache import build_cache_key

BASE = {"arch": "gfx1100", "torch_version": "2.13.0", "rocm_version": "7.15", "slot": 0}


@pytest.mark.parametrize(
    "change",
    [{"arch": "gfx1201"}, {"torch_version": "2.14.0"}, {"rocm_version": "7.16"}, {"slot": 1}],
)
def test_another_arch_release_or_slot_has_another_folder(change):
    assert build_cache_key(**BASE) != build_cache_key(**(BASE | change))


def test_a_key_is_a_path_of_plain_names():
    assert build_cache_key(**BASE) == "gfx1100/torch-2.13.0-rocm-7.15/slot-0"
    strange = build_cache_key(arch=None, torch_version="../x y", rocm_version=None, slot=2)
    assert strange == "cpu/torch-.._x_y-rocm-none/slot-2"
