"""Keep compiled and tuned kernels, so that the second job does not compile again.

Problem: MIOpen, Inductor and Triton compile for minutes before a first step; in a container their
folders vanish with it, and MIOpen's databases break under two writers or on network drives.
Applies to: every device; Inductor and Triton compile for a CPU too.
Effect: each library's variable names a folder of its own below the worker's cache, apart by
architecture, releases and slot. A folder that the user has named is left.
Evidence: ROCm/MIOpen#1878, #1295, #1010 ("database disk image is malformed"), #3957 (first steps);
the libraries' documentation of these variables.
Remove when: never; a new library with a cache gets a line here.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "any"
KEEPS_OTHERS = True
"""A variable that the user has set does not keep us from setting the others."""
FOLDERS = {
    "MIOPEN_USER_DB_PATH": "miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "triton",
}
VARIABLES = tuple(FOLDERS)


def decide(facts: PatchFacts) -> Decision:
    """A folder for each library."""
    if facts.cache_dir is None:
        return skip("there is no folder to keep them in")
    environment = {
        name: str(facts.cache_dir / folder)
        for name, folder in FOLDERS.items()
        if facts.backend == "rocm" or not name.startswith("MIOPEN_")
    }
    return apply("kernels of this architecture and these releases", environment=environment)
