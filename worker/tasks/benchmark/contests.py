"""The comparisons of a benchmark: key tests without and with patches, and single promising patches.

A comparison of a single patch is also a trial of it: its outcome is saved where the patch looks it
up before the next job (`worker.hardware.patches.trials`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from redkiln.tasks.benchmark import Measure
from redkiln.views.benchmark import BenchmarkResult, Comparison
from redkiln.views.hardware import PatchOutcome
from worker.hardware.benchmark.advice import mean_ratio
from worker.hardware.benchmark.comparison import Contest, skip_contest
from worker.hardware.benchmark.plan import Case, DeviceFacts, plan_groups
from worker.hardware.patches import channels_last, kernel_caches, merge_environment, merge_settings
from worker.hardware.patches.trials import Trial, save_trial
from worker.hardware.patches.tunableop import guard_tuning

MODULE = "worker.tasks.benchmark.key_tests"
PATCHES = ("patches", "Redkiln's patches")
TUNABLEOP = ("tunableop", "Tuned matrix products (TunableOp)")
CHANNELS_LAST = ("channels_last", "Layout channels_last (with MIOpen's)")
TRIALS = ("tunableop", "channels_last")
"""Names of comparisons of a single patch."""
KEY_SIZE = 4096
"""Largest matrix of the key tests: large enough to fill a GPU, and tuned within seconds."""
TUNING_MS = "30"
"""Longest time to tune one candidate, in milliseconds."""

Entry = tuple[Contest, Sequence[Case]] | Comparison


def list_contests(
    measure: Measure,
    facts: DeviceFacts,
    *,
    device: torch.device,
    threads: int,
    outcomes: Sequence[PatchOutcome],
    environ: Mapping[str, str],
    is_hip: bool,
    tunings_dir: Path,
) -> list[Entry]:
    """Return the comparisons of a benchmark, or the reasons for skipping them.

    Args:
        measure: Resolved settings.
        facts: Facts about the device.
        device: The device as torch names it.
        threads: CPU threads.
        outcomes: Patches applied to this process.
        environ: Environment of this process, including variables set by patches.
        is_hip: Whether torch was built for AMD GPUs.
        tunings_dir: Folder for the tuning results of a comparison.
    """
    if not measure.compare:
        return []
    cases = choose_key_tests(measure, facts)
    process = ("--device", str(device), "--threads", str(threads))
    entries = [_contest_patches(cases, process, outcomes, facts, environ)]
    if is_hip and device.type == "cuda":
        entries += _contest_tunableop(cases, process, environ, tunings_dir)
        entries += _contest_layout(cases, process, environ)
    return entries


def choose_key_tests(measure: Measure, facts: DeviceFacts) -> list[Case]:
    """Return one product and one convolution per type, and the training step."""
    cases = [case for group in plan_groups(measure, facts) for case in group.cases]
    able = [case for case in cases if case.skipped is None]
    sizes = [case.size for case in able if case.test == "matmul" and case.size]
    size = max((s for s in sizes if s <= KEY_SIZE), default=min(sizes, default=0))
    return [case for case in able if _is_key(case, size)]


def find_kernel_cache_dir(outcomes: Iterable[PatchOutcome]) -> Path | None:
    """Return the folder of this GPU's kernels, as set by its patch."""
    variables = merge_environment(list(outcomes))
    for name, folder in kernel_caches.FOLDERS.items():
        path = Path(variables.get(name, ""))
        if path.name == folder:
            return path.parent
    return None


def save_trials(result: BenchmarkResult, folder: Path) -> list[str]:
    """Save the results of single-patch comparisons and return the patches' names.

    Raises:
        OSError: the folder is not writable.
    """
    made = [c for c in result.comparisons if c.name in TRIALS and c.pairs]
    for comparison in made:
        save_trial(folder, to_trial(comparison, result))
    return [comparison.name for comparison in made]


def to_trial(comparison: Comparison, result: BenchmarkResult) -> Trial:
    """Convert a comparison to the form its patch reads: ratios of times, where less is better."""
    return Trial(
        patch=comparison.name,
        ratio=1 / mean_ratio(comparison.pairs),
        spread=max(pair.spread for pair in comparison.pairs) / 2,
        num_pairs=min(pair.num_samples for pair in comparison.pairs),
        is_right=bool(comparison.agrees),
        what=", ".join(pair.title for pair in comparison.pairs),
        at=result.at,
    )


def _is_key(case: Case, size: int) -> bool:
    if case.test == "matmul":
        return case.size == size
    is_plain = case.layout == "contiguous"
    return is_plain and (case.test == "training" or case.id.startswith("convolution/step/"))


def _contest_patches(
    cases: Sequence[Case],
    process: Sequence[str],
    outcomes: Sequence[PatchOutcome],
    facts: DeviceFacts,
    environ: Mapping[str, str],
) -> Entry:
    name, title = PATCHES
    variables, settings = merge_environment(outcomes), merge_settings(outcomes)
    if facts.kind == "cpu" or not (variables or settings):
        where = "a CPU" if facts.kind == "cpu" else "this GPU"
        why = f"no patch changes how {where} computes, so there is nothing to compare"
        return skip_contest(name, title, why, patches=outcomes)
    without = {n: v for n, v in environ.items() if variables.get(n) != v}
    contest = Contest(
        name=name,
        title=title,
        module=MODULE,
        without=without,
        with_={**without, **variables},
        arguments=(*process, "--cases", _as_json(cases)),
        with_arguments=("--settings", json.dumps(settings)),
        variables={**variables, **settings},
        patches=tuple(outcomes),
    )
    return contest, cases


def _contest_tunableop(
    cases: Sequence[Case], process: Sequence[str], environ: Mapping[str, str], tunings_dir: Path
) -> list[Entry]:
    """Compare matrix products only, because TunableOp tunes nothing else."""
    products = [case for case in cases if case.test == "matmul"]
    variables = {
        "PYTORCH_TUNABLEOP_ENABLED": "1",
        "PYTORCH_TUNABLEOP_TUNING": "1",
        "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": TUNING_MS,
        "PYTORCH_TUNABLEOP_FILENAME": str(tunings_dir / "benchmark-tunableop%d.csv"),
        # The patch hipblaslt sets this variable where that library is wrong.
        **guard_tuning(avoids_hipblaslt=environ.get("TORCH_BLAS_PREFER_HIPBLASLT") == "0"),
    }
    plain = {n: v for n, v in environ.items() if not n.startswith("PYTORCH_TUNABLEOP_")}
    return _single(TUNABLEOP, products, process, plain, variables)


def _contest_layout(
    cases: Sequence[Case], process: Sequence[str], environ: Mapping[str, str]
) -> list[Entry]:
    """Compare half-precision convolutions and steps, for which the trainer would use the layout."""
    chosen = [case for case in cases if case.layout is not None and case.precision != "fp32"]
    variables = dict.fromkeys(channels_last.VARIABLES, "1")
    plain = {n: v for n, v in environ.items() if n not in variables}
    further = ("--layout", "channels_last")
    return _single(CHANNELS_LAST, chosen, process, plain, variables, with_arguments=further)


def _single(
    names: tuple[str, str],
    cases: Sequence[Case],
    process: Sequence[str],
    plain: Mapping[str, str],
    variables: Mapping[str, str],
    *,
    with_arguments: Sequence[str] = (),
) -> list[Entry]:
    if not cases:
        return []
    contest = Contest(
        name=names[0],
        title=names[1],
        module=MODULE,
        without=plain,
        with_={**plain, **variables},
        arguments=(*process, "--cases", _as_json(cases)),
        with_arguments=with_arguments,
        variables=variables,
    )
    return [(contest, cases)]


def _as_json(cases: Sequence[Case]) -> str:
    return json.dumps([asdict(case) for case in cases])
