"""Let torch find the fastest matrix product for each shape by trying all kernels.

Problem: rocBLAS and hipBLASLt choose kernels by rules that were made for other cards; trying all
kernels finds faster ones, but takes minutes and may find wrong ones.
Applies to: any AMD GPU on which an A/B run with right numbers was at least 3 % faster.
Effect: PYTORCH_TUNABLEOP_ENABLED=1, with results kept next to the compiled kernels; the first job
tunes and later jobs only read. Each candidate gets at most 30 ms. Where hipBLASLt is wrong, its
kernels are not candidates (PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED=0).
Evidence: the documentation of torch.cuda.tunable (results are checked against library versions);
each machine measures whether it gains anything.
Remove when: torch tunes by default.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, refuse, skip
from worker.hardware.patches.facts import PatchFacts
from worker.hardware.patches.hipblaslt import find_fault

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_TUNABLEOP_*",)
CANDIDATE_MS = 30


def decide(facts: PatchFacts) -> Decision:
    """Enable it if it was measured to be faster."""
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
            "PYTORCH_TUNABLEOP_ENABLED": "1",
            "PYTORCH_TUNABLEOP_TUNING": "0" if facts.has_tunings else "1",
            "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": str(CANDIDATE_MS),
            # torch replaces %d by the index of the device.
            "PYTORCH_TUNABLEOP_FILENAME": str(facts.cache_dir / "tunableop%d.csv"),
            **({"PYTORCH_TUNABLEOP_HIPBLASLT_ENABLED": "0"} if find_fault(facts) else {}),
        },
    )
