"""Measurements on this machine before a job trains.

`batch_size.py` decides what `batch_size: auto` becomes, from what `sizing.py` measures.
`layout.py`, `compiling.py` and `precision_trial.py` choose the memory layout, torch.compile and the
precision.
"""
