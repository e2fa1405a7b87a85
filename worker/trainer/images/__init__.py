"""The images of a job: where they come from, and the batches that are drawn from them."""
