"""The subcommands of `python -m worker.hardware`, one in each file."""
