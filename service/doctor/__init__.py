"""The doctor of the whole installation: the service's own checks and those of its workers."""
