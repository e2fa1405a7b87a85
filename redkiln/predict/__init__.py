"""Runs exported models, without a service and without torch.

A model is its ONNX file with the files next to it: `manifest.json`, and for texts `tokenizer.json`.
This room is the only part of `redkiln` that needs numpy, Pillow, onnxruntime and tokenizers
(`pip install redkiln[predict]`), so the rest imports it only where it is used.
"""
