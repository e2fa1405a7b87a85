"""Reads what a user registered, in a process of its own with limits, and says whether it is good.

    python -m service.datasets.inspect JOB.json

`listing.py` names the files without decoding any, `layout.py` finds splits and classes in the
names, `images.py` decodes, `verdict.py` decides; each refusal has a path and says what to do.
"""
