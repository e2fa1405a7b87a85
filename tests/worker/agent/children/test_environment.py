import os
import subprocess
import sys
from pathlib import Path

import pytest

from worker.agent.children.environment import (
    build_child_environment,
    digest_environment,
    show_every_gpu,
    show_hugging_face,
    show_one_gpu,
    use_huge_pages,
)
from worker.hardware.masks import HIDE_GPUS
from worker.hardware.patches import PATCHES

SECRETS = {
    "REDKILN_WORKER_KEY": "rk_1",
    "REDKILN_WORKER_KEY_FILE": "/keys/worker.key",
    "REDKILN_BROKER_URL": "redis://:secret@host",
    "AWS_SECRET_ACCESS_KEY": "x",
    "HF_TOKEN": "x",
    "DATABASE_URL": "x",
}


def test_only_known_variables_are_passed_on():
    own = {
        "PATH": "/bin",
        "HOME": "/root",
        "HSA_ENABLE_SDMA": "0",
        "LC_ALL": "C",
        "FADE_FORCE_MP_COUNT": "84",
    }
    own |= SECRETS
    child = build_child_environment(own, device={}, threads=3)
    assert not SECRETS.keys() & child.keys()
    assert child == {
        "PATH": "/bin",
        "HOME": "/root",
        "HSA_ENABLE_SDMA": "0",
        "LC_ALL": "C",
        "FADE_FORCE_MP_COUNT": "84",
        "OMP_NUM_THREADS": "3",
        "PYTHONUNBUFFERED": "1",
    }


PATCHED = sorted({name for patch in PATCHES for name in patch.VARIABLES} | {"CC", "CXX"})


@pytest.mark.parametrize("name", [name.replace("*", "X") for name in PATCHED])
def test_a_setting_of_the_user_that_a_patch_or_the_compiler_follows_reaches_the_child(name):
    assert build_child_environment({name: "1"}, device={}, threads=1)[name] == "1"


# `docs/engines.md` names these, or drivers read them: a worker finds its devices with them, so its
# trainers must see the same ones.
OF_ENGINES = (
    "BEAM", "PARALLEL", "RUSTICL_ENABLE", "OCL_ICD_VENDORS", "POCL_DEVICES", "VK_DRIVER_FILES",
    "MESA_VK_DEVICE_SELECT", "DRI_PRIME",
)  # fmt: skip


@pytest.mark.parametrize("name", OF_ENGINES)
def test_a_setting_of_tinygrad_or_of_a_driver_reaches_the_child(name):
    assert build_child_environment({name: "1"}, device={}, threads=1)[name] == "1"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, "glibc.malloc.hugetlb=1"),
        ("", "glibc.malloc.hugetlb=1"),
        ("glibc.malloc.arena_max=2", "glibc.malloc.arena_max=2:glibc.malloc.hugetlb=1"),
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0"),
    ],
)
def test_huge_pages_are_requested_unless_the_user_has_set_them(said, expected):
    own = {} if said is None else {"GLIBC_TUNABLES": said}
    asked = use_huge_pages(own)
    assert asked == {"GLIBC_TUNABLES": expected}
    assert build_child_environment(own, device=asked, threads=1).items() >= asked.items()


def test_only_trainers_get_the_model_folders_and_the_token():
    known = {"HF_HOME": "/cache", "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "https://mirror"}
    own = {**known, "HF_DEBUG": "1", "PATH": "/bin", **SECRETS}
    shown = show_hugging_face(own)
    assert shown == {**known, "HF_TOKEN": SECRETS["HF_TOKEN"]}
    trainer = build_child_environment(own, device=shown, threads=1)
    assert SECRETS.keys() & trainer.keys() == {"HF_TOKEN"}
    assert "HF_TOKEN" not in build_child_environment(own, device=HIDE_GPUS, threads=1)


def test_the_slots_mask_replaces_the_agents():
    own = {"HIP_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "2"}
    child = build_child_environment(own, device={"ROCR_VISIBLE_DEVICES": "2"}, threads=1)
    assert {k: v for k, v in child.items() if "VISIBLE" in k} == {"ROCR_VISIBLE_DEVICES": "2"}
    hidden = build_child_environment(own, device=HIDE_GPUS, threads=1)
    assert "ROCR_VISIBLE_DEVICES" not in hidden
    assert show_every_gpu(own) == own


@pytest.mark.parametrize(
    ("own", "index", "is_hip", "shown"),
    [
        ({}, 1, True, {"ROCR_VISIBLE_DEVICES": "1"}),
        ({}, 1, False, {"CUDA_VISIBLE_DEVICES": "1"}),
        ({"CUDA_VISIBLE_DEVICES": "4,5"}, 1, False, {"CUDA_VISIBLE_DEVICES": "5"}),
        ({"ROCR_VISIBLE_DEVICES": "2,3"}, 0, True, {"ROCR_VISIBLE_DEVICES": "2"}),
        ({"ROCR_VISIBLE_DEVICES": "GPU-ab,GPU-cd"}, 1, True, {"ROCR_VISIBLE_DEVICES": "GPU-cd"}),
        ({"HIP_VISIBLE_DEVICES": "3"}, 0, True, {"ROCR_VISIBLE_DEVICES": "3"}),
        ({"CUDA_VISIBLE_DEVICES": "3"}, 0, True, {"ROCR_VISIBLE_DEVICES": "3"}),
        (
            {"ROCR_VISIBLE_DEVICES": "5,6", "HIP_VISIBLE_DEVICES": "1,0"},
            0,
            True,
            {"ROCR_VISIBLE_DEVICES": "6"},
        ),
    ],
)
def test_one_gpu_is_shown_by_one_variable(own, index, is_hip, shown):
    assert show_one_gpu(index, own, is_hip=is_hip) == shown


def test_a_spares_key_depends_on_the_environment_but_not_its_order():
    assert digest_environment({"A": "1", "B": "2"}) == digest_environment({"B": "2", "A": "1"})
    assert digest_environment({"A": "1"}) != digest_environment({"A": "2"})


def test_glibc_uses_huge_pages_if_the_setting_asks_for_it():
    state = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not state.exists() or "[never]" in state.read_text():
        pytest.skip("this system has no transparent huge pages")
    library, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    if library != "glibc" or tuple(map(int, version.split("."))) < (2, 35):
        pytest.skip("this C library cannot ask for them")
    code = "x = b'1' * 2**26; print(open('/proc/self/smaps_rollup').read())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=use_huge_pages({}),
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("AnonHugePages:")]
    assert int(line.split()[1]) >= 16 * 1024, "of 65,536; a busy machine may be short of them"
