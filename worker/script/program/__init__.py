"""A script before it starts: code, folders, packages, environment."""
