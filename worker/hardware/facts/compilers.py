"""Whether torch.compile can build kernels here."""

import shutil
from collections.abc import Mapping
from importlib.util import find_spec


def find_compiler_obstacle(kind: str, environ: Mapping[str, str]) -> str | None:
    """Return why nothing can be compiled on this worker; None if it can.

    Args:
        kind: Torch's device type; Inductor compiles C++ for a CPU, Triton needs C for a GPU.
        environ: Environment that may name the compilers.
    """
    compilers = [environ["CXX"]] if environ.get("CXX") else ["g++", "clang++", "c++"]
    if kind == "cpu":
        if not any(map(shutil.which, compilers)):
            return "this worker has no C++ compiler (g++)"
        return None
    if find_spec("triton") is None:
        return "this worker's torch has no Triton"
    if not any(map(shutil.which, [environ.get("CC") or "gcc", "clang", "cc"])):
        return "this worker has no C compiler (gcc), which Triton needs"
    return None
