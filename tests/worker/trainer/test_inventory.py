import json
from types import SimpleNamespace

import pytest

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
    inventory.main()
    assert json.loads(capsys.readouterr().out)["packages"] == ["timm"]
