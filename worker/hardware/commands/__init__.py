"""The subcommands of `python -m worker.hardware`, one a file."""
