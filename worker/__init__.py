"""The worker: claims attempts, trains, exports. Runs from source; imports no service code."""

import os

# ONNX Runtime sends data about its use to Microsoft unless this is set before it is loaded. This is
# the only place that every process of the worker passes before that; its children inherit it.
# Source: microsoft/onnxruntime#27379, and tests/worker/test_telemetry.py.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
