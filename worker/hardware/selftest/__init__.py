"""Whether a device computes right numbers: the same operations in float64 on the CPU, compared.

The only part of `worker/hardware` beside the benchmark that imports torch; it runs as a child,
`python -m worker.hardware.selftest`.
"""
