"""Cost of reading the files of GPUs: sensors of one card, and discovery of eight cards.

Reads generated trees, and captures of real machines if they are next to the checkout. The figures
are the costs of our own code. On hardware, a read also waits for the GPU's firmware, so the worker
reads in separate threads and records the seconds of each reading.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.result import Result, at_most, info, spread
from tests.worker.hardware.trees import MI300X, row_of, write_machine
from worker.hardware.facts.devices import load_devices
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.targets import load_targets
from worker.hardware.facts.telemetry import read_telemetry

CAPTURES = Path(__file__).parents[2] / "shared" / "captures" / "kfd"
EIGHT = "mi210-8gpu-xgmi-k8s"
ROUNDS = 200
TELEMETRY_MS = 1.0
DISCOVERY_MS = 10.0


def run() -> list[Result]:
    """Measure with warm tables and a warm page cache, as in a running worker."""
    with tempfile.TemporaryDirectory(prefix="bench-hardware-") as name:
        made = write_machine(Path(name), row_of(MI300X, 8), num_cpus=2, has_xgmi=True)
        results = [
            _telemetry("hardware/telemetry_made_card", made.device_dir(0)),
            *(
                _telemetry(f"hardware/telemetry_{folder.parent.name}", folder / "device")
                for folder in sorted(CAPTURES.glob("lact-*/card[0-9]*"))
            ),
            _discovery("hardware/discovery_made_8", made.topology_dir, made.drm_dir),
        ]
        if (CAPTURES / EIGHT).is_dir():
            results.append(_discovery(f"hardware/discovery_{EIGHT}", CAPTURES / EIGHT, None))
        results.append(_first_discovery(made.topology_dir, made.drm_dir))
    return results


def _telemetry(name: str, device_dir: Path) -> Result:
    times = _measure(lambda: read_telemetry(device_dir))
    return at_most(name, statistics.median(times), "ms", TELEMETRY_MS, spread(times))


def _discovery(name: str, topology_dir: Path, drm_dir: Path | None) -> Result:
    times = _measure(lambda: discover_gpus(topology_dir=topology_dir, drm_dir=drm_dir))
    return at_most(name, statistics.median(times), "ms", DISCOVERY_MS, spread(times))


def _first_discovery(topology_dir: Path, drm_dir: Path) -> Result:
    """Measure discovery with the tables read from disk, as the first one in a process does."""

    def first() -> None:
        load_devices.cache_clear()
        load_targets.cache_clear()
        discover_gpus(topology_dir=topology_dir, drm_dir=drm_dir)

    times = _measure(first, rounds=10)
    return info("hardware/discovery_first", statistics.median(times), "ms", spread(times))


def _measure(action: Callable[[], object], *, rounds: int = ROUNDS) -> list[float]:
    action()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append((time.perf_counter() - started) * 1e3)
    return times
