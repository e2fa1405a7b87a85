"""Baselines that cost little, the same test samples for all, and whether the model beats them."""
