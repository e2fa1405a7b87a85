import pytest
import torch

from worker.process.failed import TrainingFailed
from worker.trainer.guard.audit import OperatorAudit
from worker.trainer.guard.placement import check_batch
from worker.trainer.inputs import as_parts, send, split_inputs


def test_one_tensor_and_several_are_split_alike():
    numbers, codes = torch.arange(10).view(5, 2), torch.arange(5)
    (single,) = as_parts(numbers)
    assert single is numbers
    assert as_parts((numbers, codes)) == (numbers, codes)
    pieces = split_inputs((numbers, codes), 2)
    assert [[len(part) for part in piece] for piece in pieces] == [[3, 3], [2, 2]]
    assert [len(piece[0]) for piece in split_inputs(numbers, 2)] == [3, 2]


def test_an_error_names_the_input_on_another_device():
    here, there = torch.zeros(2), torch.zeros(2, device="meta")
    check_batch((here, here), here, torch.device("cpu"))
    with pytest.raises(TrainingFailed, match=r"inputs\[1\] on meta"):
        check_batch((here, there), here, torch.device("cpu"))


def test_a_tensor_that_is_on_the_device_is_not_copied():
    tensor = torch.arange(3)
    assert send(tensor, torch.device("cpu")) is tensor


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_a_gpu_need_not_finish_its_work_before_it_gets_a_tensor():
    device, rows = torch.device("cuda"), torch.arange(3)
    with OperatorAudit(device) as audit:
        sent = send(rows, device)
    assert audit.findings() == []
    assert torch.equal(sent.cpu(), rows)
