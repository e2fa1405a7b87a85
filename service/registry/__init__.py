"""The model registry: names, versions that count up, and aliases that move between them."""
