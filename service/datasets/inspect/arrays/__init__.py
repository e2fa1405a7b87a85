"""Images as arrays: IDX files (the format of MNIST) and NumPy's NPZ."""
