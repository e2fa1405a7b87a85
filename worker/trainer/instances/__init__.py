"""Instance segmentation: masks of objects, the network that finds them, batches and scores."""
