"""The doctor of the whole installation: the service's own checks, and what its workers' say."""
