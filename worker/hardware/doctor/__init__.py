"""The doctor: what prevents or slows training on this machine's GPUs, and how to fix it.

`gather` collects evidence from files. `examine` judges it with pure functions, one for each row of
the table of known failures (docs/doctor.md), with a file for each group of rows.
"""
