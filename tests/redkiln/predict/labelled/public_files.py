"""The files of MNIST with few images."""

import gzip
import struct

import numpy as np

GREY = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
LABELS = np.arange(30, dtype=np.uint8) % 10
NUM_TRAIN = 20


def pack_idx(array):
    head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(head + array.tobytes())


def mnist_files():
    """The content of each file by name: 20 images for training, 10 for testing."""
    parts = {"train": slice(0, NUM_TRAIN), "t10k": slice(NUM_TRAIN, None)}
    images = {f"{part}-images-idx3-ubyte.gz": pack_idx(GREY[rows]) for part, rows in parts.items()}
    labels = {
        f"{part}-labels-idx1-ubyte.gz": pack_idx(LABELS[rows]) for part, rows in parts.items()
    }
    return images | labels
