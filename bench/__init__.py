"""Measurements, each side by side in one run and printed as a ratio: `python -m bench`."""
