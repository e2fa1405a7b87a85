"""What a benchmark compares: the key tests without and with patches, and with tuned products."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from redkiln.benchmark import Comparison
from redkiln.hardware import PatchOutcome
from redkiln.tasks.benchmark import Measure
from worker.hardware.benchmark.comparison import Contest, skip_contest
from worker.hardware.benchmark.plan import Case, DeviceFacts, plan_groups

MODULE = "worker.trainer.key_tests"
PATCHES = ("patches", "Redkiln's patches")
TUNABLEOP = ("tunableop", "Tuned matrix products (TunableOp)")
KEY_SIZE = 4096
"""Largest matrix of the key tests: large enough to fill a GPU, and tuned within seconds."""


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
) -> list[tuple[Contest, Sequence[Case]] | Comparison]:
    """The comparisons of a benchmark, or why they are not made."""
    if not measure.compare:
        return []
    cases = choose_key_tests(measure, facts)
    arguments = (
        "--device", str(device),
        "--threads", str(threads),
        "--cases", json.dumps([asdict(case) for case in cases]),
    )  # fmt: skip
    patches = _contest_patches(outcomes, facts, environ, arguments)
    contests: list[tuple[Contest, Sequence[Case]] | Comparison] = []
    contests.append(patches if isinstance(patches, Comparison) else (patches, cases))
    products = [case for case in cases if case.test == "matmul"]
    if is_hip and products:
        contests.append((_contest_tunableop(environ, arguments, tunings_dir), cases))
    return contests


def choose_key_tests(measure: Measure, facts: DeviceFacts) -> list[Case]:
    """One product and one convolution in each type, and the training step: what training needs."""
    cases = [case for group in plan_groups(measure, facts) for case in group.cases]
    able = [case for case in cases if case.skipped is None]
    sizes = [case.size for case in able if case.test == "matmul" and case.size]
    size = max((s for s in sizes if s <= KEY_SIZE), default=min(sizes, default=0))
    return [case for case in able if _is_key(case, size)]


def _is_key(case: Case, size: int) -> bool:
    if case.test == "matmul":
        return case.size == size
    is_plain = case.layout == "contiguous"
    return is_plain and (case.test == "training" or case.id.startswith("convolution/step/"))


def _contest_patches(
    outcomes: Sequence[PatchOutcome],
    facts: DeviceFacts,
    environ: Mapping[str, str],
    arguments: Sequence[str],
) -> Contest | Comparison:
    name, title = PATCHES
    variables = {n: v for outcome in outcomes for n, v in outcome.environment.items()}
    settings = {n: v for outcome in outcomes for n, v in outcome.settings.items()}
    if not variables and not settings:
        where = "a CPU" if facts.kind == "cpu" else "this GPU"
        why = f"no patch applies to {where}, so there is nothing to compare"
        return skip_contest(name, title, why, patches=outcomes)
    without = {n: v for n, v in environ.items() if variables.get(n) != v}
    return Contest(
        name=name,
        title=title,
        module=MODULE,
        without=without,
        with_={**without, **variables},
        arguments=arguments,
        with_arguments=("--settings", json.dumps(settings)),
        variables={**variables, **settings},
        patches=tuple(outcomes),
    )


def _contest_tunableop(
    environ: Mapping[str, str], arguments: Sequence[str], tunings_dir: Path
) -> Contest:
    name, title = TUNABLEOP
    plain = {n: v for n, v in environ.items() if not n.startswith("PYTORCH_TUNABLEOP_")}
    variables = {
        "PYTORCH_TUNABLEOP_ENABLED": "1",
        "PYTORCH_TUNABLEOP_TUNING": "1",
        "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": "30",
        "PYTORCH_TUNABLEOP_FILENAME": str(tunings_dir / "benchmark-tunableop%d.csv"),
    }
    return Contest(
        name=name,
        title=title,
        module=MODULE,
        without=plain,
        with_={**plain, **variables},
        arguments=arguments,
        variables=variables,
    )
