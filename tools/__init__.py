"""Programs for people who work on Redkiln."""
