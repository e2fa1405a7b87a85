"""Detectors of the library transformers, which find objects by queries: network, configuration."""
