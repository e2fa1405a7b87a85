"""Boxes of a detector: joined into one array, matched, scored, drawn, and put back into images."""
