"""Networks for images that come with Redkiln."""
