"""Metrics for Prometheus: requests, the queue, workers, GPUs, storage."""
