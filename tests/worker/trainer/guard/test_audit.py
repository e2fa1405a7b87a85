"""`meta` plays the GPU: what moves between it and the CPU goes through the same operators.

With a real one the same audit runs in the tests marked `gpu`.
"""

import contextlib
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from worker.trainer.guard.audit import OperatorAudit

META = torch.device("meta")
MANY = 300_000  # more than a MiB of float32


def audit(body, *, device=META):
    found = OperatorAudit(device)
    with found:
        body()
    return found


def told(found):
    return [(f.kind, f.what) for f in found.findings()]


def test_work_on_the_device_is_counted_without_findings():
    def body():
        x = torch.ones(MANY, device=META, requires_grad=True)
        (x * 2).sum().backward()

    found = audit(body)
    assert found.findings() == []
    assert found.device_operators >= 4
    assert found.cpu_operators == 0


def test_large_work_on_the_cpu_is_found_with_its_line_and_size():
    images = torch.ones(MANY)

    def body():
        for _ in range(3):
            images.mul(2)  # here

    (finding,) = audit(body).findings()
    assert (finding.kind, finding.what, finding.count) == ("cpu_operation", "mul", 3)
    assert finding.bytes == 4 * MANY
    assert finding.where.endswith("in body")
    line = int(finding.where.split(":")[1].split()[0])
    assert "# here" in Path(__file__).read_text().splitlines()[line - 1]


def test_small_work_views_and_empty_tensors_on_the_cpu_are_not_reported():
    images = torch.ones(MANY)

    def body():
        torch.ones(100).mul(2)
        images.view(3, -1).t()[0].detach()
        torch.empty(MANY)

    assert audit(body).findings() == []


def test_a_selection_counts_by_the_size_of_its_result():
    images = torch.ones(1000, MANY // 1000)
    few, many = torch.tensor([1, 2]), torch.arange(1000)
    assert audit(lambda: images.index_select(0, few)).findings() == []
    (finding,) = audit(lambda: images.index_select(0, many)).findings()
    assert finding.what == "index_select"


def test_a_batch_from_pageable_memory_is_a_wait():
    batch = torch.ones(MANY)
    assert told(audit(lambda: batch.to(META))) == [
        ("host_synchronisation", "copy from pageable memory of the CPU")
    ]
    assert told(audit(lambda: torch.empty(MANY, device=META).copy_(batch))) == [
        ("host_synchronisation", "copy from pageable memory of the CPU")
    ]


def test_copies_within_one_device_are_not_waits():
    there, here = torch.ones(10, device=META), torch.ones(10)
    assert audit(lambda: (there.clone(), there.half(), here.double())).findings() == []


@pytest.mark.parametrize(
    ("name", "inputs", "outputs", "is_non_blocking", "expected"),
    [
        ("_local_scalar_dense", [META], [], False, "_local_scalar_dense"),
        ("nonzero", [META], [META], False, "nonzero"),
        ("equal", [META, META], [], False, "equal"),
        ("_local_scalar_dense", ["cpu"], [], False, None),
        ("nonzero", ["cpu"], ["cpu"], False, None),
        ("_to_copy", [META], ["cpu"], False, "copy to the CPU"),
        ("_to_copy", [META], ["cpu"], True, None),
        ("copy_", ["cpu", META], ["cpu"], False, "copy to the CPU"),
        ("copy_", [META, "cpu"], [META], True, "copy from pageable memory of the CPU"),
        ("mm", [META, META], [META], False, None),
    ],
)
def test_operators_that_make_the_host_wait_are_found(
    name, inputs, outputs, is_non_blocking, expected
):
    found = OperatorAudit(META)
    tensors = [[torch.ones(4, device=device) for device in side] for side in (inputs, outputs)]
    found.look(name, *tensors, is_non_blocking)
    assert [f.what for f in found.findings()] == ([expected] if expected else [])


def test_indexing_by_a_mask_waits_and_by_an_index_does_not():
    values = torch.ones(8, device=META)
    mask, places = torch.ones(8, dtype=torch.bool), torch.zeros(3, dtype=torch.int64)
    found = OperatorAudit(META)
    found.look("index", [values, places.to(META)], [values], False)
    assert found.findings() == []
    found.look("index", [values, mask.to(META)], [values], False)
    assert told(found) == [("host_synchronisation", "index by a mask")]


def test_item_is_found_with_its_line():
    # On the CPU as the device, since `meta` has no numbers to read.
    loss = torch.ones(1)

    def body():
        return loss.item()

    (finding,) = audit(body, device=torch.device("cpu")).findings()
    assert finding.what == "_local_scalar_dense"
    assert finding.where.endswith("in body")


def test_the_backward_pass_is_inspected_too():
    weight = torch.ones(600, 600, requires_grad=True)

    def body():
        (weight @ weight).sum().backward()  # all of it on the CPU

    kinds = {f.what: f for f in audit(body).findings()}
    assert kinds["mm"].count == 3


def test_an_audit_does_not_change_results():
    def train(watch):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(),
            nn.Linear(8 * 36, 5),
        )  # fmt: skip
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        losses = []
        for _ in range(4):
            with watch:
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    out = model(torch.randn(16, 3, 8, 8))
                loss = functional.cross_entropy(out.float(), torch.arange(16) % 5)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        return torch.stack([*losses, torch.rand(())])

    assert torch.equal(train(contextlib.nullcontext()), train(OperatorAudit(META)))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_on_a_gpu_reads_copies_and_masks_are_found_in_both_passes():
    device = torch.device("cuda")
    x = torch.ones(MANY, device=device, requires_grad=True)
    pinned = torch.ones(MANY).pin_memory()

    def body():
        loss = (x * 2).sum()
        loss.backward()
        loss.item()
        x.detach()[x.detach() > 0]
        torch.ones(10).to(device)
        pinned.to(device)
        pinned.to(device, non_blocking=True)

    found = audit(body, device=device)
    assert {f.what for f in found.findings()} == {
        "_local_scalar_dense",
        "index by a mask",
        "copy from pageable memory of the CPU",
        "blocking copy from the CPU",
    }
    assert found.device_operators >= 5
