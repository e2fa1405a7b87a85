"""Shortens what torch does in `torch.onnx.export`, without changing the exported graph."""
