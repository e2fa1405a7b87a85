import pytest
import torch
from torch import nn

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.guard.placement import check_batch, check_model, check_optimizer

META = torch.device("meta")
CPU = torch.device("cpu")


def build(device):
    return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).to(device)


def test_a_model_on_the_right_device_passes():
    check_model(build(META), META)
    check_model(build(CPU), CPU)


def test_an_error_names_a_parameter_that_was_never_moved():
    model = build(META)
    model[0].weight = nn.Parameter(torch.zeros(3, 4))
    with pytest.raises(TrainingFailed, match=r"0\.weight on cpu") as caught:
        check_model(model, META)
    failure = caught.value.failure
    assert (failure.code, failure.retryable) == (FailureCode.CPU_FALLBACK, False)
    assert failure.details["misplaced"] == {"0.weight": "cpu"}


def test_a_buffer_counts_like_a_parameter():
    model = build(META)
    model[1].running_mean = torch.zeros(3)
    with pytest.raises(TrainingFailed, match="running_mean on cpu"):
        check_model(model, META)


def test_an_error_names_a_few_tensors_and_counts_all():
    with pytest.raises(TrainingFailed, match="and 4 more"):
        check_model(build(CPU), META)


@pytest.mark.parametrize(("inputs", "targets"), [(CPU, META), (META, CPU)])
def test_both_parts_of_a_batch_must_be_on_the_device(inputs, targets):
    check_batch(torch.zeros(2, device=META), torch.zeros(2, device=META), META)
    with pytest.raises(TrainingFailed, match="the batch's"):
        check_batch(torch.zeros(2, device=inputs), torch.zeros(2, device=targets), META)


@pytest.mark.parametrize("fused", [True, False])
def test_an_optimizer_after_a_step_passes(fused):
    # Unfused, its count of steps is one number on the host.
    model = build(CPU)
    optimizer = torch.optim.AdamW(model.parameters(), fused=fused)
    model(torch.randn(5, 4)).sum().backward()
    optimizer.step()
    check_optimizer(model, optimizer, CPU)


def test_moments_on_the_host_are_refused():
    model = build(META)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    optimizer.state[model[0].weight]["momentum_buffer"] = torch.zeros(3, 4)
    with pytest.raises(TrainingFailed, match="weight/momentum_buffer on cpu"):
        check_optimizer(model, optimizer, META)
