"""Let torch find the fastest matrix product of each shape by trying them.

Problem: rocBLAS and hipBLASLt choose among their kernels by rules that were made for other cards;
trying them all finds faster ones, takes minutes, and may find wrong ones.
Applies to: any AMD GPU on which an A/B run with right numbers was at least 3 % faster.
Effect: PYTORCH_TUNABLEOP_ENABLED=1 with results kept beside the compiled kernels; it tunes in the
first job and only reads in all later ones. At most 30 ms are spent on a candidate.
Evidence: the documentation of torch.cuda.tunable (results are checked against library versions);
whether it gains anything is measured on each machine.
Remove when: torch tunes by itself.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, refuse, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "rocm"
VARIABLES = ("PYTORCH_TUNABLEOP_*",)
CANDIDATE_MS = 30


def decide(facts: PatchFacts) -> Decision:
    """On where it was measured to win."""
    trial = facts.trials.get("tunableop")
    if trial is None:
        return skip("off: no A/B run on this GPU has shown that it gains anything")
    if not trial.is_right:
        return refuse(f"off: {trial.describe()}")
    if not trial.has_won:
        return skip(f"off: {trial.describe()}")
    if facts.cache_dir is None:
        return skip("off: there is no folder to keep its results in")
    return apply(
        trial.describe(),
        environment={
            "PYTORCH_TUNABLEOP_ENABLED": "1",
            "PYTORCH_TUNABLEOP_TUNING": "0" if facts.has_tunings else "1",
            "PYTORCH_TUNABLEOP_MAX_TUNING_DURATION_MS": str(CANDIDATE_MS),
            # torch replaces %d by the number of the device.
            "PYTORCH_TUNABLEOP_FILENAME": str(facts.cache_dir / "tunableop%d.csv"),
        },
    )
