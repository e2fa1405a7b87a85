"""Inspects a registered data set in a separate process with limits.

    python -m service.datasets.inspect JOB.json

`listing.py` lists the files without decoding any, `layout.py` finds splits and classes in the
names, `images.py` decodes, `verdict.py` decides. Each refusal has a path and says what to do.
"""
