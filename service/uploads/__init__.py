"""Uploads of data sets in parts: they can be interrupted, and what is stored is not sent again."""
