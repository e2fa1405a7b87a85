"""Jobs: what users asked for, and what became of it."""
