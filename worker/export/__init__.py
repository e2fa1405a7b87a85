"""Turns a trained checkpoint into ONNX, holds it against torch, and writes the job's artifacts."""
