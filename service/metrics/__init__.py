"""Metric series: packed chunks, thinned for display."""
