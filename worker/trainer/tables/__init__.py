"""The tables of a job: read, made ready, and the batches that are drawn from them."""
