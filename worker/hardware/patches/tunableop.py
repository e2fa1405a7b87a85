"""Let torch find the fastest matrix product for each shape by trying all kernels.

Problem: rocBLAS and hipBLASLt choose kernels by rules that were made for other cards; trying all
kernels finds faster ones, but takes minutes and may find wrong ones.
Applies to: any AMD GPU on which an A/B run with right numbers was at least 3 % faster.
Effect: PYTORCH_TUNABLEOP_ENABLED=1, with results kept next to the compiled kernels; the first job
tunes and later jobs only read. Each candidate gets at most 30 ms. Where hipBLASLt is wrong, its
kernels are not candidates (PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED=0). A candidate whose numbers differ
from the default kernel's is dropped (PYTORCH_TUNABLEOP_NUMERICAL_CHECK). A user who enables the
tuning gets the last two, too.
Evidence: the documentation of torch.cuda.tunable (results are checked against library versions);
pytorch's Tunable.cpp, read 2026-11-23 (the check is off by default and takes "atol_rtol"); each
machine measures whether it gains anything.
Remove when: torch tunes by default.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, refuse, skip
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.hipblaslt import find_fault

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_TUNABLEOP_*",)
KEEPS_OTHERS = True
ENABLED = "PYTORCH_TUNABLEOP_ENABLED"
CANDIDATE_MS = 30
TOLERANCES = "1e-2_1e-2"
"""Absolute and relative difference allowed; a product in 16 bits differs by more than 1e-5, torch's
own default, whichever right kernel computes it."""


def guard_tuning(*, avoids_hipblaslt: bool) -> dict[str, str]:
    """Return the variables that keep wrong kernels out of the tuning."""
    guards = {"PYTORCH_TUNABLEOP_NUMERICAL_CHECK": TOLERANCES}
    if avoids_hipblaslt:
        guards["PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED"] = "0"
    return guards


def decide(facts: PatchFacts) -> Decision:
    """Enable it if it was measured to be faster, and guard a tuning that the user enabled."""
    if any(name.startswith("PYTORCH_TUNABLEOP_") for name in facts.user):
        if facts.user.get(ENABLED) != "1":
            return skip("off: you set its variables")
        guards = guard_tuning(avoids_hipblaslt=find_fault(facts) is not None)
        return apply("wrong kernels are kept out of your tuning", environment=guards)
    trial = facts.trials.get("tunableop")
    if trial is None:
        return skip("off: no A/B run on this GPU has shown a gain")
    if not trial.is_right:
        return refuse(f"off: {trial.describe()}")
    if not trial.has_won:
        return skip(f"off: {trial.describe()}")
    if facts.cache_dir is None:
        return skip("off: there is no folder for its results")
    return apply(
        trial.describe(),
        environment={
            ENABLED: "1",
            "PYTORCH_TUNABLEOP_TUNING": "0" if facts.has_tunings else "1",
            "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": str(CANDIDATE_MS),
            # torch replaces %d by the index of the device.
            "PYTORCH_TUNABLEOP_FILENAME": str(facts.cache_dir / "tunableop%d.csv"),
            **guard_tuning(avoids_hipblaslt=find_fault(facts) is not None),
        },
    )
