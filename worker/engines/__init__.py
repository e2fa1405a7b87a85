"""Engines other than torch that run a network's passes: `tinygrad`, for GPUs without ROCm wheels.

torch keeps the weights, the optimiser, the loss and the checkpoints, so a job can change its engine
at any checkpoint. An engine only gets a graph, weights and inputs, and returns outputs and
gradients (`protocol.py`).
"""
