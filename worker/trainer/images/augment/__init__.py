"""Random changes to whole batches of images."""
