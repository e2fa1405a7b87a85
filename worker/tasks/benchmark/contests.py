"""What a benchmark compares: the key tests without and with patches, and single ones that may gain.

A comparison of a single patch is also a trial of it: its outcome is kept where the patch looks for
it before the next job (`worker.hardware.patches.trials`).
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

MODULE = "worker.tasks.benchmark.key_tests"
PATCHES = ("patches", "Redkiln's patches")
TUNABLEOP = ("tunableop", "Tuned matrix products (TunableOp)")
CHANNELS_LAST = ("channels_last", "Layout channels_last (with MIOpen's)")
TRIALS = ("tunableop", "channels_last")
"""Comparisons of a single patch, by its name."""
KEY_SIZE = 4096
"""Largest matrix of the key tests: large enough to fill a GPU, and tuned within seconds."""
TUNING_MS = "30"
"""Longest tuning of one candidate."""

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
    """The comparisons of a benchmark, or why they are not made.

    Args:
        measure: resolved.
        facts: of the device.
        device: torch's name of it.
        threads: of the CPU.
        outcomes: patches as they are applied to this process.
        environ: of this process, with what the patches have set.
        is_hip: whether torch was built for AMD GPUs.
        tunings_dir: where the products that a comparison tunes are written.
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
    """One product and one convolution in each type, and the training step: what training needs."""
    cases = [case for group in plan_groups(measure, facts) for case in group.cases]
    able = [case for case in cases if case.skipped is None]
    sizes = [case.size for case in able if case.test == "matmul" and case.size]
    size = max((s for s in sizes if s <= KEY_SIZE), default=min(sizes, default=0))
    return [case for case in able if _is_key(case, size)]


def find_kernel_cache_dir(outcomes: Iterable[PatchOutcome]) -> Path | None:
    """Where the kernels of this GPU are kept, as its patch has set it."""
    variables = merge_environment(list(outcomes))
    for name, folder in kernel_caches.FOLDERS.items():
        path = Path(variables.get(name, ""))
        if path.name == folder:
            return path.parent
    return None


def save_trials(result: BenchmarkResult, folder: Path) -> list[str]:
    """Keep what comparisons of single patches found; their names.

    Raises:
        OSError: the folder cannot be written.
    """
    made = [c for c in result.comparisons if c.name in TRIALS and c.pairs]
    for comparison in made:
        save_trial(folder, to_trial(comparison, result))
    return [comparison.name for comparison in made]


def to_trial(comparison: Comparison, result: BenchmarkResult) -> Trial:
    """A comparison as the patch that it is about reads it: in times, where less is better."""
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
    """Products alone: what it tunes."""
    products = [case for case in cases if case.test == "matmul"]
    variables = {
        "PYTORCH_TUNABLEOP_ENABLED": "1",
        "PYTORCH_TUNABLEOP_TUNING": "1",
        "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": TUNING_MS,
        "PYTORCH_TUNABLEOP_FILENAME": str(tunings_dir / "benchmark-tunableop%d.csv"),
    }
    plain = {n: v for n, v in environ.items() if not n.startswith("PYTORCH_TUNABLEOP_")}
    return _single(TUNABLEOP, products, process, plain, variables)


def _contest_layout(
    cases: Sequence[Case], process: Sequence[str], environ: Mapping[str, str]
) -> list[Entry]:
    """Convolutions and the step in half precision: where the trainer would use the layout."""
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
