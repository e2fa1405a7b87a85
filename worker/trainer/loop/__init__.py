"""The training loop: its counters, checkpoints and stopping rules."""
