from pathlib import Path

from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.kernel_caches import FOLDERS, decide


def test_every_cache_lies_in_the_folder():
    environment = decide(PatchFacts("rocm", cache_dir=Path("/cache/a"))).environment
    assert set(environment) == set(FOLDERS)
    assert all(place.startswith("/cache/a/") for place in environment.values())


def test_a_cpu_has_no_use_for_the_folders_of_miopen():
    environment = decide(PatchFacts("cpu", cache_dir=Path("/cache/a"))).environment
    assert set(environment) == {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}


def test_without_a_folder_nothing_is_set():
    assert decide(PatchFacts("rocm")).outcome == "skipped"
