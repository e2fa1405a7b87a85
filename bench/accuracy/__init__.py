"""Accuracy of default jobs compared with other libraries on the same rows."""
