"""What kind of CPU this is: the instructions that decide how int8 is multiplied."""

import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
FEATURES = (
    "avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "avx512_bf16", "avx512_fp16",
    "asimddp", "i8mm", "sve",
)  # fmt: skip
"""Flags of Linux. Without VNNI, AMX or i8mm, products of int8 are added up in 16 bits, which
overflow if one side is unsigned. Source: OpenVINO's documentation on saturation."""


def detect_cpu(path: Path = CPUINFO) -> dict[str, object]:
    """Return the machine's architecture and those of `FEATURES` that its CPU has.

    Args:
        path: Linux' list of processors; without it no features are known.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError:
        lines = []
    pairs = (line.partition(":") for line in lines)
    known = {name.strip(): value.split() for name, _, value in reversed(list(pairs))}
    flags = set(known.get("flags", []) + known.get("Features", []))
    return {
        "architecture": platform.machine(),
        "model": " ".join(known.get("model name", [])),
        "features": [name for name in FEATURES if name in flags],
    }
