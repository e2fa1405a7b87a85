"""What a script says while it runs: output, metrics, progress."""
