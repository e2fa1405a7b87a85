"""Further ONNX files of a model in lower precision, each with its own verdict, size and latency."""
