import json
from types import SimpleNamespace

import pytest
import torch

from worker.trainer import inventory
from worker.trainer.inventory import name_pci_address


@pytest.mark.parametrize(
    ("properties", "address"),
    [
        ({"pci_domain_id": 0, "pci_bus_id": 3, "pci_device_id": 0}, "0000:03:00.0"),
        ({"pci_domain_id": 0x10001, "pci_bus_id": 0xC3, "pci_device_id": 31}, "10001:c3:1f.0"),
        ({}, None),
    ],
)
def test_a_gpu_has_a_pci_address_if_torch_reports_one(properties, address):
    assert name_pci_address(SimpleNamespace(**properties)) == address


def test_the_packages_that_some_jobs_need_are_reported(monkeypatch, capsys):
    monkeypatch.setattr(inventory, "find_spec", lambda name: object() if name == "timm" else None)
    monkeypatch.setattr(inventory, "find_compiler_obstacle", lambda kind, environ: "no gcc")
    inventory.main()
    assert json.loads(capsys.readouterr().out)["packages"] == ["timm"]


def test_a_compiler_is_reported_for_the_devices_that_are_used(monkeypatch):
    monkeypatch.setattr(inventory, "find_spec", lambda name: None)
    monkeypatch.setattr(
        inventory, "find_compiler_obstacle", lambda kind, environ: None if kind == "cpu" else "no"
    )
    assert inventory.list_packages("cpu") == ["compiler"]
    assert inventory.list_packages("cuda") == []


@pytest.mark.parametrize(
    ("arch", "has_bf16"),
    [("gfx1100", True), ("gfx1030", False), ("gfx906", False), ("gfx9999", False)],
)
def test_bf16_is_reported_by_the_table_and_not_by_torch(monkeypatch, arch, has_bf16):
    properties = SimpleNamespace(gcnArchName=f"{arch}:xnack-", name="a card", total_memory=1)
    monkeypatch.setattr(torch.version, "hip", "7.2")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    (view,) = inventory.detect_gpus()
    assert (view.arch, view.has_bf16) == (arch, has_bf16)
