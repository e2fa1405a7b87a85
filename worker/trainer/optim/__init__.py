"""From the gradients of a batch to the next weights."""
