"""Masks of single objects: written as runs of pixels, enlarged, saved, and drawn."""
