"""Have the fastest convolution of each shape searched for once.

Problem: by default torch takes the convolution that cuDNN or MIOpen guesses to be good.
Applies to: any GPU, where the shapes of the inputs stay the same all through training. A program
whose shapes change would search at every new one.
Effect: torch.backends.cudnn.benchmark is True; on ROCm this is MIOpen's search, whose results
`kernel_caches` keeps.
Evidence: the documentation of torch.backends.cudnn; ROCm/MIOpen#3957 (the search is slow, once).
Remove when: never; it is torch's own switch.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "gpu"
VARIABLES: tuple[str, ...] = ()


def decide(facts: PatchFacts) -> Decision:
    """On for inputs of fixed shapes."""
    if facts.has_fixed_shapes is None:
        return skip("it is not known whether the program's shapes stay the same")
    if not facts.has_fixed_shapes:
        return skip("shapes change, and each new one would be searched for")
    return apply("inputs keep one shape", settings={"torch.backends.cudnn.benchmark": "True"})
