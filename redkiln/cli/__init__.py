"""The `redkiln` command."""
