"""What a script leaves: files, models, checkpoints."""
