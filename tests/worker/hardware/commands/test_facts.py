import json

import pytest

from tests.worker.hardware.trees import (
    RAPHAEL,
    RX_6800_XT,
    RX_7900_XTX,
    write_machine,
)
from worker.hardware.__main__ import main

SHAPE = {"gfx", "cu_count", "wgp_count", "wave_size", "vram_bytes", "pci_address", "unique_id"}
PLACE = {"render_minor", "is_apu", "num_xcc"}


def facts(capsys, *arguments):
    status = main(["facts", *map(str, arguments)])
    return status, capsys.readouterr().out


def test_json_is_a_list_of_each_gpus_facts(tmp_path, capsys):
    machine = write_machine(tmp_path, [RX_7900_XTX, RAPHAEL])
    status, out = facts(capsys, "--topology", machine.topology_dir, "--json")
    listed = json.loads(out)
    assert status == 0
    assert [{name: gpu[name] for name in SHAPE | PLACE} for gpu in listed] == [
        {
            "gfx": "gfx1100",
            "cu_count": 96,
            "wgp_count": 48,
            "wave_size": 32,
            "vram_bytes": RX_7900_XTX.vram_bytes,
            "pci_address": "0000:03:00.0",
            "unique_id": RX_7900_XTX.unique_id,
            "render_minor": 128,
            "is_apu": False,
            "num_xcc": 1,
        },
        {
            "gfx": "gfx1036",
            "cu_count": 2,
            "wgp_count": 1,
            "wave_size": 32,
            "vram_bytes": RAPHAEL.gtt_bytes,
            "pci_address": "0000:10:00.0",
            "unique_id": 0,
            "render_minor": 129,
            "is_apu": True,
            "num_xcc": 1,
        },
    ]
    assert [link["hops"] for link in listed[0]["links"]] == [1, 2]
    assert [gpu["telemetry"] for gpu in listed] == [None, None]


def test_the_folder_of_cards_adds_telemetry(tmp_path, capsys):
    machine = write_machine(tmp_path, [RX_7900_XTX])
    _, out = facts(capsys, "--topology", machine.topology_dir, "--drm", machine.drm_dir, "--json")
    (gpu,) = json.loads(out)
    assert gpu["telemetry"]["busy_ratio"] == 0.05
    assert gpu["telemetry"]["edge_celsius"] == 48.0


def test_the_table_shows_each_gpu_and_its_defects(tmp_path, capsys):
    machine = write_machine(tmp_path, [RX_6800_XT])
    status, out = facts(capsys, "--topology", machine.topology_dir, "--drm", machine.drm_dir)
    assert status == 0
    for words in (
        "Radeon RX 6800 XT",
        "72 CU, 36 WGP",
        "wave32",
        "fp32 20.74",
        "16.0 GiB, 512 GB/s",
        "0000:03:00.0, renderD128, card0",
        "1 CPU by pcie, 1 hop",
        "5 % busy",
        "gfx1030: rdna2, trains in fp16",
        "bf16 through Triton aborts the process",
    ):
        assert words in out


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda root: write_machine(root, []), "1 node, but no GPU among them"),
        (lambda root: (root / "topology").mkdir(), "contains no topology"),
        (lambda root: None, "does not exist"),
    ],
)
def test_the_reason_for_finding_no_gpu_is_shown(tmp_path, capsys, make, words):
    make(tmp_path)
    status, out = facts(capsys, "--topology", tmp_path / "topology")
    assert status == 1
    assert out.startswith("No AMD GPU found.")
    assert words in out


def test_an_unreadable_folder_is_reported(tmp_path, capsys):
    far = tmp_path / ("x" * 300)  # no file system has such names: stat ends in an error
    status, out = facts(capsys, "--topology", far, "--drm", far)
    assert status == 1
    assert out.count("does not exist, or this user may not read it.") == 2


def test_no_gpus_as_json_are_an_empty_list(tmp_path, capsys):
    assert facts(capsys, "--drm", tmp_path, "--json") == (1, "[]\n")
