"""Preparation of raw inputs inside ONNX files: joins graphs, and adds answers to the outputs."""
