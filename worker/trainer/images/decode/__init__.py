"""Decodes a data set of images once, into one array on disk that every job reads."""
