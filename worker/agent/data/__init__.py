"""Data sets of attempts: opened in place, or fetched into the cache."""
