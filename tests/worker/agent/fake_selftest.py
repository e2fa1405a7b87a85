"""A self-test whose verdict is written in a file.

`passed`; `failed` (in fp32), `fp16` (wrong in it alone), `hipblaslt` (wrong by that library, tested
whatever is preferred), `dies`, or `dies-in-attention` (unless a variable excludes that).
"""

# ruff: noqa: T201  a program

import json
import os
import signal
import sys
from pathlib import Path

verdict_path = Path(sys.argv[1])
verdict, asked = verdict_path.read_text().strip(), sys.argv[2:]
with verdict_path.with_suffix(".calls").open("a") as calls:
    masks = {name: value for name, value in os.environ.items() if "VISIBLE" in name}
    calls.write(json.dumps({"asked": asked, "masks": masks}) + "\n")
if verdict == "dies":
    print("testing gemm fp32", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
if verdict == "dies-in-attention" and "--without-fused-attention" not in asked:
    print("fp16 attention_forward attention_backward flash 1x1x64x32", file=sys.stderr, flush=True)
    print("Memory access fault by GPU node-1", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGABRT)


def result(precision, *, is_good, library=None):
    return {
        "area": "gemm_tall_skinny", "precision": precision, "library": library, "shape": "8x8",
        "reduction_length": 8, "max_rel_error": 1e-7 if is_good else 0.93, "tolerance": 0.01,
        "verdict": "passed" if is_good else "failed", "seconds": 0.1,
    }  # fmt: skip


results = [
    result("fp32", is_good=verdict != "failed", library="rocblas"),
    result("fp32", is_good=verdict not in ("failed", "hipblaslt"), library="hipblaslt"),
    result("fp16", is_good=verdict != "fp16", library="rocblas"),
]
if verdict == "dies-in-attention":
    died = asked[asked.index("--without-fused-attention") + 1]
    fused = result("fp32", is_good=False, library="flash")
    results.append(fused | {"area": "attention_forward", "verdict": "error", "error": died})
names = ("TORCH_BLAS_PREFER_HIPBLASLT", "DISABLE_ADDMM_CUDA_LT", "ROCBLAS_USE_HIPBLASLT")
print(
    json.dumps(
        {
            "at": "2026-11-21T00:00:00Z",
            "device": "cuda:0",
            "settings": {name: os.environ[name] for name in names if name in os.environ},
            "status": "passed" if verdict == "passed" else "failed",
            "results": results,
        }
    )
)
