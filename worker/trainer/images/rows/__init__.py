"""Reads chosen rows of a decoded set ahead of the steps that need them."""
