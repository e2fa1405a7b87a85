"""ONNX files as networks: which operators are right, and how fast an imported network trains."""
