"""Checks the quality of a valid data set: copies, contradictions, rare classes, columns that leak.

It also draws splits that keep copies together.

The checks return warnings, which are shown before training. No warning makes a data set invalid.
"""
