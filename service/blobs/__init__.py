"""Blobs: which stored bytes are needed, and when they are deleted."""
