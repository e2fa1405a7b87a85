"""Blobs: who needs stored bytes, and when they may go."""
