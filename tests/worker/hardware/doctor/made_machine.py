"""A healthy machine as its doctor sees it, and ways in which another is not like it."""

from dataclasses import replace

from redkiln.views.self_test import SelfTestReport, SelfTestResult
from tools import doctor_machines as host
from worker.hardware.doctor.evidence import (
    KernelCache,
    KernelDatabase,
    SharedMemory,
    Torch,
)
from worker.hardware.health.death_book import SeenDeath
from worker.hardware.peers import PeerVerdict

AT, GIB, ADDRESS, CARD, TO_CPU = host.AT, host.GIB, host.ADDRESS, host.CARD, host.LINK
INTEGRATED = host.RAPHAEL.model_copy(update={"pci_address": "0000:0d:00.0", "name": None})
# The host's names of groups are not known in a container.
KFD, RENDER, RENDER_2 = (
    replace(node, group=None) for node in (host.KFD, host.RENDER, host.RENDER_2)
)
ROCM = Torch(
    "2.13.0+rocm7.2", hip="7.2.4", arch_list=("gfx90a", "gfx1030", "gfx1100"), num_devices=1
)
CPU_BUILD = Torch("2.13.0+cpu", num_devices=0)
CACHE = KernelCache(
    "/cache/kernels",
    exists=True,
    is_writable=True,
    file_system="ext4",
    num_files=41,
    databases=(KernelDatabase("/cache/kernels/gfx1100_48.ukdb"),),
)


def self_test(**changes):
    told = {"device": "cuda:0", "gfx": "gfx1100", "pci_address": ADDRESS, "status": "passed"}
    return SelfTestReport(at=AT, **told | changes)


def failed_result(**changes):
    told = {
        "area": "gemm_tall_skinny",
        "precision": "fp16",
        "library": "rocblas",
        "shape": "8192x16x512",
        "reduction_length": 512,
        "max_rel_error": 0.97,
        "tolerance": 0.004,
        "zeros_ratio": 0.93,
        "verdict": "failed",
        "seconds": 0.1,
    }
    return SelfTestResult(**told | changes)


def death(row, line="", **changes):
    told = {"at": AT, "attempt_id": "att_7", "status": -6, "row": row, "line": line}
    return SeenDeath(**told | changes)


HEALTHY = replace(
    host.HEALTHY,
    environment={"PATH": "/usr/bin"},
    uid=10001,
    groups=frozenset({10001, 992}),
    is_container=True,
    kernel_release="6.18.3-generic",
    command_line="BOOT_IMAGE=/vmlinuz root=/dev/sda2 quiet",
    pci_targets=(),
    kfd=KFD,
    render_nodes=(RENDER,),
    gpu_readings=(),
    packages={"torch": "2.13.0+rocm7.2"},
    torch=ROCM,
    caches=(CACHE,),
    shared_memory=SharedMemory(8 * GIB, 8 * GIB),
    logs={"jobs/att_1/trainer.log": "epoch 1: loss 0.31\n"},
    self_tests=(self_test(),),
    system_names=(),
)

OTHER_CARD = CARD.model_copy(
    update={"pci_address": "0000:43:00.0", "render_minor": 129, "node": 2, "uuid": "GPU-2"}
)
TWO_CARDS = {"gpus": (CARD, OTHER_CARD), "render_nodes": (RENDER, RENDER_2), "has_iommu": True}


def tried(*, gpus=(ADDRESS, "0000:43:00.0"), problem="", environment=None):
    return PeerVerdict(
        at=AT,
        gpus=gpus,
        torch=ROCM.version,
        driver=None,
        has_passed=bool(environment) or not problem,
        environment=environment or {},
        problem=problem,
    )


def with_gfx(gfx, **changes):
    return {"gpus": (CARD.model_copy(update={"gfx": gfx, **changes}),)}


def with_telemetry(**changes):
    return {
        "gpus": (CARD.model_copy(update={"telemetry": CARD.telemetry.model_copy(update=changes)}),)
    }


def with_node(**changes):
    return {"kfd": replace(KFD, **changes)}
