"""Changes of all jobs that a filter selects."""
