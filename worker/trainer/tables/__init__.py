"""The tables of a job: reading and preparing them, and the batches drawn from them."""
