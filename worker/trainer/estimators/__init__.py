"""Trains models that are not networks of torch: they grow in rounds, by their own library."""
