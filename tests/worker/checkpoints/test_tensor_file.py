"""Files that we write must be what the library reads."""

import errno
import hashlib
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from worker.checkpoints import tensor_file
from worker.checkpoints.tensor_file import DTYPES, write_tensors


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_library_reads_every_type_back(tmp_path, dtype):
    path = tmp_path / "x.safetensors"
    tensors = {
        "grid": torch.arange(6).reshape(2, 3).to(dtype),
        "one": torch.tensor(1).to(dtype),
        "none": torch.empty(0, 4, dtype=dtype),
    }
    with path.open("wb") as file:
        digest, size_bytes = write_tensors(file, tensors)
    content = path.read_bytes()
    assert (digest, size_bytes) == (hashlib.sha256(content).hexdigest(), len(content))
    loaded = safetensors.torch.load_file(path)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert loaded[name].dtype == dtype
        assert torch.equal(loaded[name], tensor)


@pytest.mark.parametrize("small_bytes", [0, 30, 10**6])
def test_types_of_several_widths_and_layouts_share_a_file(tmp_path, monkeypatch, small_bytes):
    monkeypatch.setattr(tensor_file, "CHUNK_BYTES", 40)
    monkeypatch.setattr(tensor_file, "SMALL_BYTES", small_bytes)
    path = tmp_path / "x.safetensors"
    images = torch.randn(2, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    tensors = {
        "flag": torch.tensor([True, False, True]),
        "images": images,
        "half": torch.randn(3, dtype=torch.bfloat16),
        "turned": torch.randn(4, 3).t(),
        "curve": torch.randn(2, 7, dtype=torch.float64),
    }
    with path.open("wb") as file:
        digest, _ = write_tensors(file, tensors)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    loaded = safetensors.torch.load_file(path)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())


def test_a_full_device_is_an_error():
    full = os.strerror(errno.ENOSPC)
    with pytest.raises(OSError, match=full), Path("/dev/full").open("wb") as file:
        write_tensors(file, {"w": torch.zeros(2**20)})
