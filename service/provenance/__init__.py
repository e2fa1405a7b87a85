"""Provenance: signatures with the installation's key, which prove where a file comes from."""
