"""Predictions: runs published models on small inputs, each in a process with limits."""
