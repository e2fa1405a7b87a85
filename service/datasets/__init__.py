"""Data sets: uploaded, registered in place or built in; validated before any training."""
