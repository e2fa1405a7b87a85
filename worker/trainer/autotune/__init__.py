"""Measurements on this machine before a job trains.

`batch_size.py` decides what `batch_size: auto` becomes, from what `sizing.py` measures.
`layout.py`, `compiling.py` and `cpu_bf16.py` choose the memory layout, torch.compile and bf16.
"""
