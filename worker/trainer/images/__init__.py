"""The images of a job: where they come from, and the batches drawn from them."""
