"""Search once for the fastest convolution of each shape.

Problem: by default torch uses the convolution that cuDNN or MIOpen estimates to be good.
Applies to: any GPU, if the shapes of the inputs stay the same throughout training. A program with
changing shapes would search again for every new shape.
Effect: torch.backends.cudnn.benchmark is True; on ROCm this runs MIOpen's search, whose results
`kernel_caches` keeps.
Evidence: the documentation of torch.backends.cudnn; ROCm/MIOpen#3957 (the search is slow, once).
Remove when: never; it is torch's own switch.
"""

from worker.hardware.patches.decision import Decision, Scope, apply, skip
from worker.hardware.patches.facts import PatchFacts

SCOPE: Scope = "gpu"
VARIABLES: tuple[str, ...] = ()


def decide(facts: PatchFacts) -> Decision:
    """Enable the search for inputs of fixed shapes."""
    if facts.has_fixed_shapes is None:
        return skip("it is unknown whether the program's shapes stay the same")
    if not facts.has_fixed_shapes:
        return skip("the shapes change, and every new one would need a search")
    return apply("the inputs keep one shape", settings={"torch.backends.cudnn.benchmark": "True"})
