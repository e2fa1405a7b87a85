"""Dense detection of objects: the network, its loss, its batches, and how it is scored."""
