"""What a benchmark of a GPU compares, beside the job that runs it."""
