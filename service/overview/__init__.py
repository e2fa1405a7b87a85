"""The state of the whole installation, read once for everyone who watches it."""
