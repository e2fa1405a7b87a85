import io
import tarfile
from collections import Counter

import numpy as np
import pytest

from redkiln.datasets import BUILTIN_IMAGES, DatasetIndex
from redkiln.predict.labelled.public_images import LOADERS
from redkiln.predict.pixels import PixelFormat
from tests.redkiln.predict.labelled.public_files import GREY, LABELS, mnist_files
from worker.process.failed import TrainingFailed
from worker.trainer.images.decode.decoded_set import open_decoded
from worker.trainer.images.sources.builtins import INDEX, open_builtin

COLOUR = np.random.default_rng(1).integers(0, 256, (30, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def files_dir(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name, content in mnist_files().items():
        (folder / name).write_bytes(content)
    planes = COLOUR.transpose(0, 3, 1, 2).reshape(30, -1)
    records = np.concatenate([LABELS[:, None], planes], axis=1)
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        parts = {"test_batch": records[20:], "data_batch_2": records[10:20]}
        for name, some in {**parts, "data_batch_1": records[:10]}.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = some.nbytes
            archive.addfile(member, io.BytesIO(some.tobytes()))
        archive.addfile(tarfile.TarInfo("cifar-10-batches-bin/readme.html"))
    return folder


@pytest.mark.parametrize(
    ("name", "images"), [("mnist", GREY), ("fashion-mnist", GREY), ("cifar-10", COLOUR)]
)
def test_a_public_set_keeps_its_own_test_split(files_dir, tmp_path, name, images):
    folder = open_builtin(name, cache_dir=tmp_path / "cache", files_dir=files_dir)
    index = DatasetIndex.model_validate_json((folder / INDEX).read_bytes())
    facts = BUILTIN_IMAGES[name]
    assert (index.classes, index.channels) == (facts.classes, facts.channels)
    assert (index.image_size, index.held_out_test) == (facts.image_size, False)
    assert [sample.label for sample in index.splits["train"]] == LABELS[:20].tolist()
    assert [sample.label for sample in index.splits["test"]] == LABELS[20:].tolist()
    ranks = Counter(sample.rank for sample in index.splits["train"])
    assert ranks == {0: 10, 1: 10}
    size = images.shape[1]
    decoded = open_decoded(
        folder,
        folder / INDEX,
        index,
        fingerprint=name,
        pixel_format=PixelFormat(size=size, channels=facts.channels, resize="stretch"),
        cache_dir=tmp_path / "cache",
        on_progress=lambda _done, _total: None,
    )
    assert np.array_equal(decoded.images[np.arange(30)].squeeze(), images)


@pytest.mark.parametrize("name", LOADERS)
def test_an_error_names_missing_files(tmp_path, name):
    with pytest.raises(
        TrainingFailed, match=rf"files of built-in data set {name} cannot be read"
    ) as caught:
        open_builtin(name, cache_dir=tmp_path / "cache", files_dir=tmp_path)
    assert caught.value.failure.code == "dataset_unavailable"
    assert not (tmp_path / "cache/builtin" / name).exists()


def test_an_error_names_a_damaged_file(files_dir, tmp_path):
    path = files_dir / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TrainingFailed, match=r"train-images-idx3-ubyte\.gz is damaged"):
        open_builtin("mnist", cache_dir=tmp_path / "cache", files_dir=files_dir)
