"""Redkiln: train models on AMD GPUs over HTTP and get verified ONNX back.

What every side agrees on lives here (job spec, protocol, events, failures), with all that a user
installs: `Client` and the `redkiln` command.
"""

from redkiln.version import __version__

__all__ = ["__version__"]
