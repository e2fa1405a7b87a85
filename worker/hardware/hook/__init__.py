"""A folder for PYTHONPATH: Python runs its `sitecustomize` before any program."""
