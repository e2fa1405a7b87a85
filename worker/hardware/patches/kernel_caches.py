"""Keep compiled and tuned kernels, so that later jobs need not compile them again.

Problem: MIOpen, Inductor and Triton compile for minutes before the first step; a container loses
their folders when it is removed, and MIOpen's databases are damaged by two writers or on network
drives.
Applies to: every device; Inductor and Triton also compile for CPUs.
Effect: each library's variable names a separate folder in the worker's cache, by architecture,
releases and slot. A folder that the user has set is kept.
Evidence: ROCm/MIOpen#1878, #1295, #1010 ("database disk image is malformed"), #3957 (first steps);
unslothai/unsloth#11614 (keys); the libraries' documentation of these variables.
Remove when: never; a new library with a cache is added here.
"""

from collections.abc import Mapping
from pathlib import Path

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.triton_buffer_ops import has_wrong_buffers

SCOPE: Scope = "any"
KEEPS_OTHERS = True
"""If the user has set one of these variables, the others are still set."""
FOLDERS = {
    "MIOPEN_USER_DB_PATH": "miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
}
VARIABLES = tuple(FOLDERS)


def decide(facts: PatchFacts) -> Decision:
    """Set a folder for each library."""
    if facts.cache_dir is None:
        return skip("there is no folder to keep them in")
    own = "-no-buffer-ops" if has_wrong_buffers(facts) else ""
    environment = {
        name: str(facts.cache_dir / (folder if folder == "miopen" else folder + own))
        for name, folder in FOLDERS.items()
        if facts.backend == "rocm" or not name.startswith("MIOPEN_")
    }
    return apply("kernels for this architecture and these releases", environment=environment)


def find_folders(environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of kernels that an environment names."""
    named = (Path(environ[name]) for name in FOLDERS if environ.get(name))
    return list(dict.fromkeys(named))
