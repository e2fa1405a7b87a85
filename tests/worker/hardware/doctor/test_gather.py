"""Evidence from made-up roots, damaged ones, and this machine."""

import os
import sqlite3
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.worker.hardware.trees import RX_6800_XT, write_machine
from worker.hardware.doctor.evidence import Torch
from worker.hardware.doctor.examine import examine
from worker.hardware.doctor.gather import SystemPaths, ask_torch, gather, read_torch
from worker.hardware.doctor.kernel_caches import check_database, look_at_caches
from worker.hardware.doctor.machine import find_file_system
from worker.hardware.health.fault_book import FaultBook, SeenFault
from worker.hardware.override import ProbeKey, ProbeResult, save_result

NODE = (
    "cpu_cores_count 0\nsimd_count 192\nsimd_per_cu 2\nwave_front_size 32\n"
    "gfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\nlocation_id 768\ndomain 0\n"
    "drm_render_minor 128\nunique_id 99\n"
)
ROCM = Torch("2.13.0", hip="7.2.4", arch_list=("gfx1100",), num_devices=1)
MOUNTS = """\
22 1 8:2 / / rw,relatime - ext4 /dev/sda2 rw
31 22 0:30 / /cache rw - tmpfs tmpfs rw
32 31 0:31 / /cache/with\\040blank rw - nfs4 server:/x rw
nonsense
"""


def write(root, path, content=""):
    """A file, or a folder where there is no content."""
    target = root / path
    if content is None:
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    return target


@pytest.fixture
def root(tmp_path):
    """A workstation with one card, its driver loaded, in no container."""
    root = tmp_path / "root"
    write(root, "dev/kfd")
    write(root, "dev/dri/renderD128")
    write(root, "dev/shm", None)
    write(root, "dev/kmsg", "6,1,100,-;amdgpu 0000:03:00.0: amdgpu: GPU reset(1) failed\n")
    write(root, "sys/module/amdgpu/version", "6.16.6\n")
    write(root, "sys/class/kfd/kfd/topology/nodes/1/properties", NODE)
    write(root, "sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711\n")
    write(root, "sys/class/kfd/kfd/proc/4211", None)
    write(root, "sys/bus/pci/devices/0000:03:00.0/vendor", "0x1002\n")
    write(root, "sys/bus/pci/devices/0000:03:00.0/class", "0x030000\n")
    write(root, "sys/bus/pci/devices/0000:04:00.0/vendor", "0x10de\n")
    write(root, "sys/kernel/iommu_groups/0", None)
    write(root, "proc/4211/comm", "ollama\n")
    write(root, "proc/cmdline", "quiet iommu=pt\n")
    write(root, "proc/version", "Linux version 6.18.3 (gcc)\n")
    write(root, "proc/sys/kernel/osrelease", "6.18.3-generic\n")
    write(root, "proc/self/mountinfo", MOUNTS)
    return root


def look(root, **paths):
    return gather(SystemPaths(root=root, **paths), environment={}, torch=ROCM)


def verdicts(evidence):
    return {check.row: check.verdict for check in examine(evidence).checks}


def test_a_machine_is_read_from_its_files(root):
    found = look(root)
    assert found.kfd.path == "/dev/kfd"
    assert [node.path for node in found.render_nodes] == ["/dev/dri/renderD128"]
    assert [gpu.gfx for gpu in found.usable_gpus] == ["gfx1100"]
    assert found.pci_gpus == ("0000:03:00.0",)
    assert (found.has_driver, found.driver_version) == (True, "6.16.6")
    assert [(p.pid, p.name) for p in found.gpu_processes] == [(4211, "ollama")]
    assert (found.command_line, found.has_iommu) == ("quiet iommu=pt", True)
    assert (found.is_container, found.is_wsl, found.is_docker_desktop) == (False, False, False)
    assert found.shared_memory.size_bytes > 0
    rows = verdicts(found)
    assert {rows[row] for row in (1, 2, 3, 4, 5)} == {"ok"}
    assert rows[10] == "bad"


@pytest.mark.parametrize(
    ("path", "row"),
    [("dev/kfd", 3), ("dev/dri/renderD128", 5)],
)
def test_a_missing_file_turns_its_row_red(root, path, row):
    (root / path).unlink()
    assert verdicts(look(root))[row] == "bad"


def test_a_node_closed_to_this_user_turns_its_row_red(root):
    if os.getuid() == 0:
        # Root opens whatever there is; a folder opens for writing for nobody.
        (root / "dev/kfd").unlink()
        write(root, "dev/kfd", None)
        assert look(root).kfd.error
        return
    (root / "dev/kfd").chmod(0)
    assert verdicts(look(root))[4] == "bad"


def test_containers_wsl_and_docker_desktop_are_distinguished(root):
    write(root, "run/.containerenv")
    write(root, "proc/version", "Linux version 5.15.1-microsoft-standard-WSL2")
    write(root, "dev/dxg")
    write(root, "usr/lib/wsl/lib/libdxcore.so")
    found = look(root)
    assert (found.is_container, found.is_wsl, found.dxg.path) == (True, True, "/dev/dxg")
    assert found.wsl_libraries == ("/usr/lib/wsl/lib/libdxcore.so",)
    assert verdicts(found)[22] == "bad"
    write(root, "proc/version", "Linux version 6.6.12-linuxkit")
    assert look(root).is_docker_desktop


@pytest.mark.parametrize("content", [b"", b"\0" * 4096, b"\xff\xfe\x00 9", b"-1 -1\n" * 5000])
def test_damaged_files_never_end_the_doctor(root, content):
    for path in [path for path in root.rglob("*") if path.is_file()]:
        path.write_bytes(content)
    assert examine(look(root)).checks


def test_an_empty_root_is_a_machine_without_a_gpu(tmp_path):
    found = look(tmp_path)
    assert not found.has_amd_gpu
    assert set(verdicts(found)) == {0, 2, 17, 23}


def test_a_fault_of_the_worker_that_was_recorded_is_found(tmp_path):
    fault = SeenFault(at=datetime.now(UTC), attempt_id="att_1", text="ImportError: no module")
    FaultBook(tmp_path).add("MLflow", fault)
    found = gather(SystemPaths(root=tmp_path, worker_dir=tmp_path), environment={})
    assert found.faults == {"MLflow": fault}
    assert verdicts(found)[23] == "bad"


def test_this_machine_is_examined_without_an_error():
    found = gather(SystemPaths(), environment=os.environ, torch=None)
    assert examine(found).checks
    assert "pytest" in found.packages


def test_only_a_malformed_database_is_reported(tmp_path, root):
    sound, broken = tmp_path / "c/gfx1100.ukdb", tmp_path / "c/gfx1030.ukdb"
    sound.parent.mkdir()
    with sqlite3.connect(sound) as database:
        database.execute("create table k (x)")
        database.executemany("insert into k values (?)", [("v" * 500,)] * 200)
    database.close()
    content = bytearray(sound.read_bytes())
    content[4096:12288] = os.urandom(8192)
    broken.write_bytes(content)
    assert check_database(sound).verdict == "ok"
    assert "malformed" in check_database(broken).verdict
    assert "not a database" in check_database(write(tmp_path, "x.udb", "words" * 99)).verdict
    found = look(root, cache_dirs=[tmp_path / "c"])
    assert verdicts(found)[14] == "bad"
    broken.unlink()
    assert verdicts(look(root, cache_dirs=[tmp_path / "c"]))[14] == "ok"


def test_a_folder_that_cannot_be_made_is_not_writable(tmp_path):
    write(tmp_path, "file")
    (cache,) = look_at_caches([tmp_path / "file/kernels"], mounts="")
    assert (cache.exists, cache.is_writable) == (False, False)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/x", "ext4"), ("/cache/kernels", "tmpfs"), ("/cache/with blank/k", "nfs4")],
)
def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount(tmp_path, path, kind):
    assert find_file_system(Path(path), mounts=MOUNTS) == kind


def test_torch_is_asked_in_a_child_and_a_crash_is_reported():
    script = 'print(\'{"torch_version": "2.13", "hip_version": "7.2", "gpus": []}\')'
    told = ask_torch([sys.executable, "-c", script], environment={})
    assert told == Torch("2.13", hip="7.2", num_devices=0)
    dead = ask_torch([sys.executable, "-c", "raise SystemExit('no torch')"], environment={})
    assert dead == Torch(error="no torch")
    assert "absent" in ask_torch(["/absent"], environment={}).error


def test_facts_missing_from_torchs_output_are_unknown():
    assert read_torch({}) == Torch()


def test_a_stored_verdict_on_the_override_of_a_gpu_is_found(root, tmp_path):
    topology = write_machine(tmp_path / "navi", [replace(RX_6800_XT, gfx_version=100302)])
    key = ProbeKey(gfx="gfx1032", value="10.3.0", torch="2.13.0", rocm="7.2.4")
    passed = ProbeResult(verdict="passed", detail="matmul correct in a probe")
    save_result(tmp_path / "tests", key, passed, now=datetime.now(UTC))
    paths = SystemPaths(root, topology_dir=topology.topology_dir, self_test_dir=tmp_path / "tests")
    for version, found in (("2.13.0", {"gfx1032": passed}), ("2.14.0", {})):
        torch = Torch(version, hip="7.2.4")
        assert gather(paths, environment={}, torch=torch).override_probes == found
