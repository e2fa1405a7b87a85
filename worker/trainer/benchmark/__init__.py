"""The comparisons that a benchmark of a GPU makes."""
