"""What is changed about the environment and about torch on given hardware, one patch a file.

Each file decides from facts alone (`decide`), and its docstring says what it is about: Problem,
Applies to, Effect, Evidence, Remove when. Variables are set before Python starts; switches of torch
are set in it (worker.hardware.torch_settings). What the user has set is left, and shown.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from redkiln.hardware import PatchOutcome
from worker.hardware.patches import (
    allocator,
    aotriton,
    attention,
    blas_library,
    channels_last,
    convolution_search,
    gfx_override,
    hardware_queues,
    hipblaslt,
    kernel_arguments,
    kernel_caches,
    miopen_find,
    miopen_log,
    precision,
    sdma,
    tunableop,
    unit_count,
)
from worker.hardware.patches.decision import Decision, Patch
from worker.hardware.patches.facts import PatchFacts

PATCHES = cast(
    "tuple[Patch, ...]",
    (
        gfx_override,
        precision,
        hipblaslt,
        blas_library,
        tunableop,
        convolution_search,
        miopen_find,
        channels_last,
        aotriton,
        attention,
        kernel_caches,
        allocator,
        kernel_arguments,
        sdma,
        hardware_queues,
        miopen_log,
        unit_count,
    ),
)
"""All patches, in the order in which they are listed."""

SCOPES: Mapping[str, frozenset[str]] = {
    "cpu": frozenset({"any"}),
    "cuda": frozenset({"any", "gpu"}),
    "rocm": frozenset({"any", "gpu", "rocm"}),
}


def name_of(patch: Patch) -> str:
    """What a patch is called: its file's name."""
    return patch.__name__.rpartition(".")[2]


def decide_all(facts: PatchFacts) -> list[PatchOutcome]:
    """What becomes of each patch; those that have no meaning here are one line together."""
    fitting = [patch for patch in PATCHES if patch.SCOPE in SCOPES[facts.backend]]
    outcomes = [_decide(patch, facts) for patch in fitting]
    num_others = len(PATCHES) - len(fitting)
    if num_others:
        what = "no GPU" if facts.backend == "cpu" else "no AMD GPU"
        why = f"{what}, so the other {num_others} patches have nothing to do"
        outcomes.append(PatchOutcome(name="others", outcome="skipped", why=why))
    return outcomes


def merge_environment(outcomes: Sequence[PatchOutcome]) -> dict[str, str]:
    """The variables of all patches together."""
    return {name: v for outcome in outcomes for name, v in outcome.environment.items()}


def merge_settings(outcomes: Sequence[PatchOutcome]) -> dict[str, str]:
    """The switches of torch of all patches together."""
    return {name: v for outcome in outcomes for name, v in outcome.settings.items()}


def _decide(patch: Patch, facts: PatchFacts) -> PatchOutcome:
    decision = patch.decide(facts)
    own = {name: value for name, value in facts.user.items() if _is_about(patch, name)}
    environment = {n: v for n, v in decision.environment.items() if n not in facts.user}
    outcome: Literal["applied", "skipped", "refused", "user"] = decision.outcome
    why = decision.why
    settings: Mapping[str, str] = decision.settings
    if own:
        if not getattr(patch, "KEEPS_OTHERS", False):
            environment, settings = {}, {}
        if not environment:
            outcome = "user"
        why = _beside(own, decision)
    return PatchOutcome(
        name=name_of(patch),
        outcome=outcome,
        why=why,
        environment=environment,
        settings=dict(settings),
        user=own,
        versions=facts.versions,
    )


def _beside(own: Mapping[str, str], decision: Decision) -> str:
    text = ", ".join(f"{name}={value}" for name, value in sorted(own.items()))
    return f"left as you have set it ({text}); by itself: {decision.outcome}, {decision.why}"


def _is_about(patch: Patch, name: str) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patch.VARIABLES
    )
