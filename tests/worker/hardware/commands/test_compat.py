import json

import pytest

from worker.hardware.__main__ import main

ROCM = {
    "torch_version": "2.13.0+rocm10.0",
    "hip_version": "7.15.1",
    "rocm_version": "10.0.0",
    "arch_list": ["gfx1151"],
    "gpus": [{"index": 0}],
}
STRIX_HALO = (
    "cpu_cores_count 0\nsimd_count 80\nsimd_per_cu 2\nwave_front_size 32\n"
    "gfx_target_version 110501\nvendor_id 4098\ndevice_id 5510\nlocation_id 768\n"
    "drm_render_minor 128\nunique_id 0\n"
)


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The arguments that describe a Strix Halo."""
    for name in ("WORKER", "TOPOLOGY", "DRM", "LOCK"):
        monkeypatch.setenv(f"REDKILN_{name}_DIR", str(tmp_path / name.lower()))
    node = tmp_path / "topology/nodes/1"
    node.mkdir(parents=True)
    (node / "gpu_id").write_text("29772\n")
    (node / "properties").write_text(STRIX_HALO)
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps(ROCM))
    return ["--topology", str(tmp_path / "topology"), "--inventory", str(inventory)]


def test_a_card_is_described_with_sources(capsys):
    assert main(["compat", "--gfx", "gfx1151"]) == 0
    out = capsys.readouterr().out
    assert "6.18.4 or newer" in out
    assert "ROCm/rocm-systems#1807" in out
    assert "graph of 20" in out


def test_a_card_as_json(capsys):
    assert main(["compat", "--gfx", "gfx1100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {release["rocm"] for release in told["releases"]} >= {"10.0", "7.2"}
    assert all(edge["source"] for edge in told["edges"])


def test_a_card_without_builds_exits_with_2(capsys):
    assert main(["compat", "--gfx", "gfx803"]) == 2
    assert "No published build" in capsys.readouterr().out


def test_a_card_with_only_an_override_names_the_card_whose_kernels_may_work(capsys):
    assert main(["compat", "--gfx", "gfx902"]) == 2
    assert "Those of gfx900 may work with HSA_OVERRIDE_GFX_VERSION=9.0.0" in capsys.readouterr().out


def test_an_unknown_card_is_named_with_the_known_ones(capsys):
    assert main(["compat", "--gfx", "gfx9999"]) == 2
    assert "gfx1100" in capsys.readouterr().err


def test_this_machine_is_judged(machine, capsys):
    status = main(["compat", "--json", *machine])
    told = json.loads(capsys.readouterr().out)
    (gpu,) = told["gpus"]
    assert gpu["gfx"] == "gfx1151"
    assert status == (0 if gpu["is_supported"] else 1)
    assert main(["compat", *machine]) == status
    assert "gfx1151 at 0000:03:00.0" in capsys.readouterr().out


def test_a_machine_without_a_gpu_says_how_to_name_one(tmp_path, monkeypatch, capsys):
    for name in ("WORKER", "TOPOLOGY", "DRM"):
        monkeypatch.setenv(f"REDKILN_{name}_DIR", str(tmp_path / name.lower()))
    inventory = tmp_path / "inventory.json"
    inventory.write_text("{}")
    assert main(["compat", "--inventory", str(inventory)]) == 2
    assert "--gfx gfx1100" in capsys.readouterr().err
