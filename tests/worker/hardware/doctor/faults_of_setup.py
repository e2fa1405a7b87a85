"""Rows 1 to 8 of the table: torch's build, device nodes, the driver and its firmware."""

import errno
from dataclasses import replace

from redkiln.views.hardware import GpuFacts
from tests.worker.hardware.doctor.fault_texts import (
    OVERRIDDEN,
    RIGHT,
    WRONG,
)
from tests.worker.hardware.doctor.made_machine import (
    ADDRESS,
    CARD,
    CPU_BUILD,
    INTEGRATED,
    KFD,
    RENDER,
    RENDER_2,
    ROCM,
    death,
    with_gfx,
    with_node,
)
from worker.hardware.doctor.evidence import (
    Torch,
)

SETUP = [
    # row, what is other than on the healthy machine, severity, in the fix, in the evidence
    (1, with_gfx("gfx1201"), "blocks", "on the host: ./up --slim", "gfx1201"),
    (1, with_gfx("gfx90c"), "blocks", "./up --slim", "gfx90c"),
    (
        1,
        with_gfx("gfx90c") | {"is_container": False},
        "blocks",
        '"torch[device-gfx900]"',
        "gfx90c",
    ),
    (1, with_gfx("gfx9999"), "blocks", "another GPU, or on the CPU", "gfx9999"),
    (
        1,
        {"gpus": (CARD, CARD.model_copy(update={"gfx": "gfx1201", "node": 2}))},
        "blocks",
        "./up --full",
        "gfx1201",
    ),
    (
        1,
        with_gfx("gfx1201") | {"is_container": False},
        "blocks",
        '"torch[device-gfx1201]"',
        "gfx1100",
    ),
    (
        1,
        {"packages": {"amd-torch-device-gfx1030": "2.13"}},
        "blocks",
        "./up --slim",
        "wheels for gfx1030",
    ),
    (1, with_gfx("gfx1032"), "note", "./up --slim", "gfx1032"),
    (1, with_gfx("gfx803"), "blocks", "another GPU or on the CPU", "gfx803"),
    (2, {"torch": CPU_BUILD}, "blocks", "./up --slim", "torch.version.hip is None"),
    (2, {"torch": CPU_BUILD} | with_gfx("gfx9999"), "blocks", "./up --cpu", "hip is None"),
    (2, {"torch": Torch("2.13.0", cuda="12.8", num_devices=0)}, "blocks", "./up", "CUDA 12.8"),
    (2, {"torch": Torch(error="No module named 'torch'")}, "blocks", "./up", "No module named"),
    (3, {"kfd": None}, "blocks", "--device /dev/kfd --device /dev/dri", "/dev/kfd does not exist"),
    (
        3,
        {"kfd": None, "is_docker_desktop": True},
        "blocks",
        "docker context use default",
        "Desktop",
    ),
    (
        3,
        {"kfd": None, "is_container": False, "has_driver": False, "gpus": (), "render_nodes": ()},
        "blocks",
        "sudo modprobe amdgpu",
        ADDRESS,
    ),
    (3, {"kfd": None, "is_container": False}, "blocks", "dmesg", "driver is loaded"),
    (3, with_node(error=errno.EPERM), "blocks", "--device /dev/kfd", "Operation not permitted"),
    (3, with_node(error=errno.ENODEV), "blocks", "dmesg", "No such device"),
    (4, with_node(error=errno.EACCES), "blocks", 'group_add: ["992"]', "groups 992, 10001"),
    (4, with_node(error=errno.EACCES, gid=65534), "blocks", "keep-groups", "65534"),
    (4, with_node(error=errno.EACCES, mode=0o600), "blocks", "chmod 660 /dev/kfd", "mode 600"),
    (
        4,
        {"kfd": replace(KFD, error=errno.EACCES, group="render"), "is_container": False},
        "blocks",
        "usermod --append --groups render",
        "render (992)",
    ),
    (
        4,
        {"render_nodes": (replace(RENDER, error=errno.EACCES, gid=44),)},
        "blocks",
        'group_add: ["44"]',
        "/dev/dri/renderD128",
    ),
    (5, {"render_nodes": ()}, "blocks", "--device /dev/dri/renderD128", "absent"),
    (
        5,
        {"render_nodes": (replace(RENDER, error=errno.EPERM),)},
        "blocks",
        "devices: [/dev/kfd, /dev/dri/renderD128]",
        "forbidden",
    ),
    (
        5,
        {"render_nodes": (), "gpus": (GpuFacts(node=1, is_accessible=False),)},
        "blocks",
        "/dev/dri",
        "",
    ),
    (
        6,
        {"environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}},
        "blocks",
        "unset HSA_OVERRIDE_GFX_VERSION",
        "10.3.0",
    ),
    (6, with_gfx("gfx1032") | OVERRIDDEN, "note", "unset HSA_OVERRIDE", "no probe has shown"),
    (
        6,
        with_gfx("gfx1032") | OVERRIDDEN | {"override_probes": {"gfx1032": WRONG}},
        "blocks",
        "unset HSA_OVERRIDE",
        "10.3.0",
    ),
    (
        6,
        {
            "gpus": (CARD, CARD.model_copy(update={"gfx": "gfx1032", "node": 2})),
            "override_probes": {"gfx1032": RIGHT},
        }
        | OVERRIDDEN,
        "blocks",
        "unset HSA_OVERRIDE",
        "10.3.0",
    ),
    (
        6,
        with_gfx("gfx1032") | {"environment": {"HSA_OVERRIDE_GFX_VERSION": "11.0.0"}},
        "blocks",
        "unset HSA_OVERRIDE",
        "11.0.0",
    ),
    (6, {"torch": replace(ROCM, num_devices=0)}, "blocks", "amdgpu-dkms", "torch counts 0 devices"),
    (6, {"deaths": (death(6, "hsa_init failed"),)}, "blocks", "driver", "hsa_init failed"),
    (7, {"packages": {"amdsmi": "7.0.2"}}, "note", "pip uninstall --yes amdsmi", "7.0.2"),
    (
        7,
        {"packages": {"amdsmi": "7.0.2"}, "torch": replace(ROCM, num_devices=0)},
        "blocks",
        "pip uninstall --yes amdsmi",
        "counts 0",
    ),
    (
        8,
        {"gpus": (CARD, INTEGRATED), "render_nodes": (RENDER, RENDER_2)},
        "note",
        "/dev/dri/renderD128]",
        "gfx1036 at 0000:0d:00.0 (2 CU)",
    ),
    (
        8,
        {"gpus": (CARD, INTEGRATED), "render_nodes": (RENDER, RENDER_2), "is_container": False},
        "note",
        "ROCR_VISIBLE_DEVICES=GPU-00000000005d0f6b",
        "96 CU",
    ),
]
