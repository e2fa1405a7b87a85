import pytest
import torch

from worker.trainer.headroom import leave_headroom


class FakeCuda:
    def __init__(self, total_bytes):
        self.total_memory = total_bytes
        self.fraction = None

    def get_device_properties(self, _):
        return self

    def set_per_process_memory_fraction(self, fraction, _):
        self.fraction = fraction


@pytest.mark.parametrize(
    ("device", "limit_bytes", "fraction"),
    [("cuda:0", 6, 0.75), ("cuda:0", 99, 1.0), ("cuda:0", None, None), ("cpu", 6, None)],
)
def test_a_run_stays_within_its_memory_limit(monkeypatch, device, limit_bytes, fraction):
    cuda = FakeCuda(total_bytes=8)
    monkeypatch.setattr(torch, "cuda", cuda)
    returned = leave_headroom(torch.device(device), limit_bytes=limit_bytes)
    assert cuda.fraction == fraction
    assert returned == (fraction or 1.0)
