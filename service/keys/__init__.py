"""API keys: who may do what, with only hashes kept."""
