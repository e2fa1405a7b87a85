"""Masks, which give each pixel a class: stored, fitted to a model's square, scored, and drawn."""
