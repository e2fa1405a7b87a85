"""The guard of a run on a GPU: nothing trains on a CPU unnoticed."""
