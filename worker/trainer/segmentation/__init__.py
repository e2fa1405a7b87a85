"""Semantic segmentation: the network, its loss, masks and batches, and how it is scored."""
