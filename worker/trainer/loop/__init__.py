"""The training loop: what it counts, saves, restores and when it stops."""
