import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from worker.trainer.loop.release import copy_to_host, release_device

CPU = torch.device("cpu")


def test_a_tensor_and_its_gradient_are_freed_and_other_objects_are_kept():
    weight = torch.ones(4, requires_grad=True)
    weight.sum().backward()
    elsewhere = torch.empty(8, device="meta")
    assert release_device(CPU, among=[weight, elsewhere, "text", None]) == 32
    assert weight.untyped_storage().nbytes() == 0
    assert weight.grad.untyped_storage().nbytes() == 0
    assert elsewhere.shape == (8,)


def test_memory_that_two_tensors_share_is_counted_once():
    whole = torch.zeros(6)
    assert release_device(CPU, among=[whole, whole[2:]]) == 24


def test_a_tensor_that_cannot_be_freed_is_skipped():
    stubborn = torch.from_numpy(np.zeros(4, dtype=np.float32))
    with FakeTensorMode():
        pretended = torch.zeros(4)
    ours = torch.zeros(2)
    num_bytes = release_device(CPU, among=[stubborn, pretended, ours])
    assert num_bytes == 8
    assert ours.untyped_storage().nbytes() == 0


def test_tensors_on_the_host_are_not_copied():
    tensors = {"a": torch.ones(3)}
    assert copy_to_host(tensors)["a"].data_ptr() == tensors["a"].data_ptr()
