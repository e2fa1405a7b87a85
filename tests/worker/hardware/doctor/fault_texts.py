"""What faults say, in the words of the driver and of libraries."""

from tests.worker.hardware.doctor.made_machine import AT
from worker.hardware.health.fault_book import SeenFault
from worker.hardware.override import ProbeResult

FRAGMENTED = (
    "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 23.98 GiB of which 1.10 GiB is free. Of the allocated memory 14.20 GiB is "
    "allocated by PyTorch, and 7.90 GiB is reserved by PyTorch but unallocated."
)
RING = "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=712, emitted seq=714"
PAGE_FAULT = (
    "amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32770)"
)
RESET_FAILED = "amdgpu 0000:03:00.0: amdgpu: GPU reset(3) failed"
FAULT = SeenFault(at=AT, attempt_id="att_7", text="ImportError: no module named 'x'")
OVERRIDDEN = {"environment": {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}}
RIGHT = ProbeResult(verdict="passed", detail="matmul correct in a probe, error 1.2e-07")
WRONG = ProbeResult(verdict="failed", detail="it computes wrong numbers")
