"""Changes to the environment and to torch for given hardware, one file for each patch.

Each file decides from facts alone (`decide`), and its docstring has the same five parts: Problem,
Applies to, Effect, Evidence, Remove when. Variables are set before Python starts; switches of torch
are set in the process (worker.hardware.torch_settings). The user's settings are kept and reported.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from redkiln.views.hardware import PatchOutcome
from worker.hardware.patches import (
    allocator,
    aotriton,
    attention,
    blas_library,
    channels_last,
    convolution_search,
    gfx_override,
    hipblaslt,
    kernel_arguments,
    kernel_caches,
    miopen,
    miopen_log,
    peer_to_peer,
    precision,
    product_rows,
    triton_buffer_ops,
    tunableop,
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
        product_rows,
        tunableop,
        convolution_search,
        miopen,
        channels_last,
        aotriton,
        attention,
        kernel_caches,
        allocator,
        kernel_arguments,
        miopen_log,
        triton_buffer_ops,
        peer_to_peer,
    ),
)
"""All patches, in the order in which they are listed."""

SCOPES: Mapping[str, frozenset[str]] = {
    "cpu": frozenset({"any"}),
    "cuda": frozenset({"any", "gpu"}),
    "rocm": frozenset({"any", "gpu", "rocm"}),
}


def name_of(patch: Patch) -> str:
    """Return a patch's name, which is its file's name."""
    return patch.__name__.rpartition(".")[2]


def decide_all(facts: PatchFacts) -> list[PatchOutcome]:
    """Decide every patch; the patches that cannot apply to this backend share one line."""
    fitting = [patch for patch in PATCHES if patch.SCOPE in SCOPES[facts.backend]]
    outcomes = [_decide(patch, facts) for patch in fitting]
    num_others = len(PATCHES) - len(fitting)
    if num_others:
        what = "no GPU" if facts.backend == "cpu" else "no AMD GPU"
        why = f"there is {what}, so the other {num_others} patches do not apply"
        outcomes.append(PatchOutcome(name="others", outcome="skipped", why=why))
    return outcomes


def merge_environment(outcomes: Sequence[PatchOutcome]) -> dict[str, str]:
    """Return the variables of all patches."""
    return {name: v for outcome in outcomes for name, v in outcome.environment.items()}


def merge_settings(outcomes: Sequence[PatchOutcome]) -> dict[str, str]:
    """Return the switches of torch of all patches."""
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
        why = _explain_kept(own, decision)
    return PatchOutcome(
        name=name_of(patch),
        outcome=outcome,
        why=why,
        environment=environment,
        settings=dict(settings),
        user=own,
        versions=facts.versions,
    )


def _explain_kept(own: Mapping[str, str], decision: Decision) -> str:
    text = ", ".join(f"{name}={value}" for name, value in sorted(own.items()))
    by_default = f"{decision.outcome}, {decision.why}"
    return f"your setting is kept ({text}); the default would be: {by_default}"


def _is_about(patch: Patch, name: str) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patch.VARIABLES
    )
