"""One side of a comparison that computes nothing: its arguments say what it tells.

fake_side.py SECONDS OUTPUT [die]
"""

# ruff: noqa: T201  a program

import json
import os
import sys

seconds, output = float(sys.argv[1]), float(sys.argv[2])
if os.environ.get("FASTER"):
    seconds /= 2
print("a library says hello", flush=True)
print("x" * 200_000, file=sys.stderr)
print(json.dumps({"outputs": {"matmul/64/fp32": [1.0, output]}}), flush=True)
for _ in sys.stdin:
    if "die" in sys.argv:
        sys.exit("the GPU is gone")
    print(json.dumps({"seconds": {"matmul/64/fp32": seconds}}), flush=True)
