"""Runs the stack on one machine without containers: Redis, service and worker as children."""

import os

# As in the worker's package: the demo runs the model that it has trained.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
