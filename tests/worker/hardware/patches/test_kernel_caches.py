from pathlib import Path

from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.kernel_caches import FOLDERS, decide


def test_every_cache_is_inside_the_folder():
    environment = decide(PatchFacts("rocm", cache_dir=Path("/cache/a"))).environment
    assert set(environment) == set(FOLDERS)
    assert all(place.startswith("/cache/a/") for place in environment.values())


def test_a_cpu_gets_no_miopen_folders():
    environment = decide(PatchFacts("cpu", cache_dir=Path("/cache/a"))).environment
    assert set(environment) == {"TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"}


def test_without_a_folder_nothing_is_set():
    assert decide(PatchFacts("rocm")).outcome == "skipped"
