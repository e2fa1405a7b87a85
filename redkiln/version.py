"""The version of the package, read by the build and printed by every process."""

__version__ = "0.1.0"
