"""Makes the archives that the recipes train on, from the files that their authors publish.

    python examples/datasets/make_archives.py mnist FOLDER       # writes mnist-12k.zip
    python examples/datasets/make_archives.py cifar10 FILE       # writes cifar10-12k.zip
    python examples/datasets/make_archives.py digits             # writes digits-28.zip

`mnist` reads the four `*-ubyte.gz` files in a folder, `cifar10` reads `cifar-10-binary.tar.gz`.
Both keep the first 1,000 training images and the first 200 test images of each class. `digits`
needs no download: it enlarges scikit-learn's 1,797 digits to 28x28 pixels, as a stand-in for MNIST.
"""

import argparse
import gzip
import io
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

NUM_IN_CLASS = {"train": 1000, "test": 200}
Labelled = tuple[str, NDArray[np.uint8], str]
"""Split, an image (H, W) or (H, W, 3), and its class."""


def read_mnist(folder: Path) -> Iterator[Labelled]:
    """Yield the images of the IDX files in a folder.

    Source: the format is described at http://yann.lecun.com/exdb/mnist.
    """
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pixels = _read_idx(folder / f"{prefix}-images-idx3-ubyte.gz", num_axes=3)
        labels = _read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", num_axes=1)
        for image, label in zip(pixels, labels, strict=True):
            yield split, image, str(label)


def read_cifar10(path: Path) -> Iterator[Labelled]:
    """Yield the images of `cifar-10-binary.tar.gz`: a label and three planes of 32x32 bytes each.

    Source: https://www.cs.toronto.edu/~kriz/cifar.html, "Binary version".
    """
    with tarfile.open(path) as archive:
        members = {Path(member.name).name: member for member in archive.getmembers()}
        names = _extract(archive, members["batches.meta.txt"]).decode().split()
        batches = [f"data_batch_{number}.bin" for number in range(1, 6)]
        for name in [*batches, "test_batch.bin"]:
            content = _extract(archive, members[name])
            rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
            for row in rows:
                image = row[1:].reshape(3, 32, 32).transpose(1, 2, 0)
                yield "test" if name.startswith("test") else "train", image, names[row[0]]


def read_digits() -> Iterator[Labelled]:
    """Yield scikit-learn's digits, enlarged to 28x28 pixels; each fifth one is a test image."""
    from sklearn.datasets import load_digits  # here, because the other sets do not need it

    found = load_digits()
    for number, (pixels, label) in enumerate(zip(found.images, found.target, strict=True)):
        small = Image.fromarray((pixels * 255 / 16).astype(np.uint8))
        image = np.asarray(small.resize((28, 28), Image.Resampling.BICUBIC))
        yield "test" if number % 5 == 0 else "train", image, str(label)


def write_archive(images: Iterator[Labelled], path: Path) -> Counter[str]:
    """Write `<split>/<class>/<number>.png` and return the number of images of each split."""
    seen: Counter[tuple[str, str]] = Counter()
    with zipfile.ZipFile(path, "w") as archive:
        for split, image, name in images:
            if seen[split, name] == NUM_IN_CLASS[split]:
                continue
            content = io.BytesIO()
            Image.fromarray(np.ascontiguousarray(image)).save(content, "PNG")
            place = f"{split}/{name}/{seen[split, name]:04d}.png"
            archive.writestr(zipfile.ZipInfo(place), content.getvalue())
            seen[split, name] += 1
    totals: Counter[str] = Counter()
    for (split, _), num in seen.items():
        totals[split] += num
    return totals


def _read_idx(path: Path, *, num_axes: int) -> NDArray[np.uint8]:
    content = gzip.decompress(path.read_bytes())
    if content[:4] != bytes([0, 0, 8, num_axes]):
        raise SystemExit(f"{path} is not an IDX file of bytes with {num_axes} axes")
    shape = np.frombuffer(content, ">i4", count=num_axes, offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * num_axes).reshape(shape)


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    opened = archive.extractfile(member)
    assert opened is not None, f"{member.name} is a file"
    return opened.read()


def main() -> None:
    """Read a set and write its archive into the current folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=["mnist", "cifar10", "digits"])
    parser.add_argument("source", type=Path, nargs="?", help="folder or file of the originals")
    options = parser.parse_args()
    if options.set == "digits":
        images, path = read_digits(), Path("digits-28.zip")
    elif options.source is None or not options.source.exists():
        parser.error(f"{options.set} needs the place of its files; the help says which")
    else:
        read = read_mnist if options.set == "mnist" else read_cifar10
        images, path = read(options.source), Path(f"{options.set}-12k.zip")
    totals = write_archive(images, path)
    print(f"{path}: {totals['train']:,} training and {totals['test']:,} test images")


if __name__ == "__main__":
    main()
