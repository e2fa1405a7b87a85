"""What monitoring scrapes: requests, the queue, workers, GPUs, storage."""
