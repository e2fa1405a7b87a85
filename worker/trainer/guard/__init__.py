"""The guard of a run on a GPU: detects work that falls back to the CPU."""
