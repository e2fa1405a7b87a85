"""Exports a trained checkpoint to ONNX, compares it with torch, and writes the job's artifacts."""
