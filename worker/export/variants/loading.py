"""Loads a converted file in a separate process first, because ONNX Runtime may crash on it.

Known: ONNX Runtime 1.31.1 ends with a segmentation fault when its optimiser folds the float16
weights of some networks with attention (`FuseFp16InitializerToFp32NodeTransformer`).
"""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"""
TIMEOUT_SECONDS = 300.0


def check_loads(path: Path) -> None:
    """Load a file in another process.

    Raises:
        ValueError: ONNX Runtime cannot load the file, or crashes; it would do so for users, too.
    """
    command = [sys.executable, "-I", "-c", PROGRAM, str(path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode < 0:
        raise ValueError(f"ONNX Runtime crashes when it loads the file (signal {-done.returncode})")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [""])[-1][:300]
        raise ValueError(f"ONNX Runtime cannot load the file: {last}")
