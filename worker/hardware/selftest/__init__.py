"""Checks whether a device computes right numbers, by comparing with float64 on the CPU.

Apart from the benchmark, this is the only part of `worker/hardware` that imports torch; it runs as
a child, `python -m worker.hardware.selftest`.
"""
