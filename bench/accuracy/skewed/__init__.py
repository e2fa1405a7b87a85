"""Regression of targets with a long tail, in their own unit and on their logarithm."""
