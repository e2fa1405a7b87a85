"""The doctor: what keeps this machine from training on its GPUs, what slows it, and what to type.

`gather` collects evidence from files, `examine` judges it: pure functions, one a row of the table
of known failures (docs/doctor.md), a file for each group of rows.
"""
