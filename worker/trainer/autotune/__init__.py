"""Measurements on this machine before a job trains.

For `batch_size: auto`, `probing.py` measures the speed of each batch size, `batch_size.py` chooses
one, and `sizing.py` writes it into the spec.
`layout.py`, `compiling.py` and `precision_trial.py` choose the memory layout, torch.compile and the
precision.
"""
