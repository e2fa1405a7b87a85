"""A worker's settings on a made machine, whose GPUs are files alone."""

import json
import sys
from pathlib import Path

TRAINER = str(Path(__file__).parent / "gpu_trainer.py")


def settings_on(machine, *, archs):
    """The settings of a stack whose worker finds the GPUs of a machine.

    Args:
        machine: as `write_machine` has made it.
        archs: its GPUs in order, each with what torch says it is.
    """
    views = [
        {"index": n, "name": "a card", "arch": arch, "pci_address": gpu.pci_address}
        for n, (gpu, arch) in enumerate(archs)
    ]
    return {
        "REDKILN_TOPOLOGY_DIR": str(machine.topology_dir),
        "REDKILN_DRM_DIR": str(machine.drm_dir),
        "REDKILN_LOCK_DIR": str(machine.root / "locks"),
        "REDKILN_STATUS_SECONDS": "1",
        "REDKILN_SPARE": "0",
        "REDKILN_TRAINER_FAKE_GPUS": json.dumps(views),
        "REDKILN_INVENTORY_COMMAND": json.dumps([sys.executable, TRAINER, "inventory"]),
        "REDKILN_SELFTEST_COMMAND": "[]",
    }
