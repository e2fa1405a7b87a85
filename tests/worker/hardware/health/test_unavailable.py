import errno
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from redkiln.views.hardware import GpuFacts
from worker.hardware.doctor.evidence import DeviceNode, Evidence, Torch
from worker.hardware.health.unavailable import explain_no_gpu, find_masks

GPU = GpuFacts(node=1, gfx="gfx1100", pci_address="0000:03:00.0", render_minor=128, is_apu=False)
KFD = DeviceNode("/dev/kfd", uid=0, gid=992, mode=0o660)
RENDER = DeviceNode("/dev/dri/renderD128", uid=0, gid=992, mode=0o660)
ROCM = Torch("2.13.0+rocm7.2", hip="7.2.4", arch_list=("gfx1100",), num_devices=0)
AMD = Evidence(
    at=datetime(2026, 5, 1, tzinfo=UTC),
    has_driver=True,
    gpus=(GPU,),
    pci_gpus=("0000:03:00.0",),
    kfd=KFD,
    render_nodes=(RENDER,),
    groups=frozenset({1000}),
    uid=1000,
    torch=ROCM,
)
BARE = Evidence(at=AMD.at, torch=Torch("2.13.0+cpu", num_devices=0))

TABLE = [
    ("CPU wheel next to an AMD card", {"torch": Torch("2.13.0+cpu")}, "torch_is_rocm", "pip"),
    (
        "CUDA wheel next to an AMD card",
        {"torch": Torch("2.13", cuda="12.6")},
        "torch_is_rocm",
        "pip",
    ),
    ("no torch", {"torch": Torch(error="No module named 'torch'")}, "torch_is_rocm", "pip"),
    ("/dev/kfd is absent", {"kfd": None}, "kfd", "dmesg"),
    ("... in a container", {"kfd": None, "is_container": True}, "kfd", "--device /dev/kfd"),
    ("no driver", {"kfd": None, "has_driver": False, "gpus": ()}, "kfd", "modprobe"),
    ("no permission", {"kfd": replace(KFD, error=errno.EACCES)}, "permission", "992"),
    ("the render node is not passed", {"render_nodes": ()}, "render_nodes", "renderD128"),
    (
        "a mask hides all",
        {"environment": {"HIP_VISIBLE_DEVICES": "-1"}},
        "masked",
        "unset HIP_VISIBLE_DEVICES",
    ),
    ("amdsmi", {"packages": {"amdsmi": "7.0"}}, "no_amdsmi", "uninstall"),
    (
        "an override",
        {"environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}},
        "runtime",
        "unset HSA_OVERRIDE_GFX_VERSION",
    ),
    ("driver and runtime do not fit", {}, "runtime", "driver"),
    (
        "no kernels for the architecture",
        {"torch": replace(ROCM, arch_list=("gfx90a",), num_devices=1)},
        "arch_not_in_build",
        "gfx1100",
    ),
    (
        "nothing explains it",
        {"torch": replace(ROCM, num_devices=1, error="hipErrorUnknown")},
        "unexplained",
        "redkiln doctor",
    ),
    (
        "WSL2 without its device",
        {"kfd": None, "is_wsl": True},
        "wsl",
        "wsl",
    ),
]


@pytest.mark.parametrize(
    ("changes", "code", "fix"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_first_layer_that_is_broken_is_the_cause(changes, code, fix):
    found = explain_no_gpu(replace(AMD, **changes))
    assert found.code == code
    assert fix in found.fix
    assert found.cause in str(found)
    assert found.fix in str(found)


@pytest.mark.parametrize(
    ("torch", "environment", "code", "words"),
    [
        (Torch("2.13.0+cpu"), {}, "no_gpu", "built for CPUs only"),
        (Torch("2.13.0+rocm7.2", hip="7.2.4"), {}, "no_gpu", "no GPU"),
        (Torch("2.13.0", cuda="12.6"), {}, "no_gpu", "nvidia-smi"),
        (Torch("2.13.0", cuda="12.6"), {"CUDA_VISIBLE_DEVICES": ""}, "masked", "unset"),
        (Torch(error="No module named 'torch'"), {}, "no_gpu", "No module named"),
        (None, {}, "no_gpu", "not checked"),
    ],
)
def test_a_machine_without_an_amd_gpu_is_explained(torch, environment, code, words):
    found = explain_no_gpu(replace(BARE, torch=torch, environment=environment))
    assert found.code == code
    assert words in str(found)


@pytest.mark.parametrize(
    ("environment", "hiding"),
    [
        ({"ROCR_VISIBLE_DEVICES": "GPU-12ab"}, {}),
        ({"ROCR_VISIBLE_DEVICES": "0"}, {}),
        ({"CUDA_VISIBLE_DEVICES": " -1 "}, {"CUDA_VISIBLE_DEVICES": " -1 "}),
        ({"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": ""}),
        ({"PATH": ""}, {}),
    ],
)
def test_only_a_mask_that_shows_nothing_hides(environment, hiding):
    assert find_masks(environment) == hiding
