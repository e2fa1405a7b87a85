"""Reading any tree, however damaged, returns facts and never raises."""

import errno
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redkiln.views.hardware import GpuFacts
from tests.worker.hardware.trees import RAPHAEL, RX_7900_XTX, put, row_of, write_machine
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.sysfs import read_file

ERRNOS = (errno.ENOENT, errno.EPERM, errno.EACCES, errno.EISDIR, errno.EIO, errno.ENODEV)
GARBAGE = (b"", b"\0" * 4096, b"\xff\xfe\x00\x01" * 50, b"9" * 5000, b"\n\n *\n", b"-1\n")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    apu = replace(RAPHAEL, bus=0x83, card=2, render_minor=130)
    return write_machine(tmp_path_factory.mktemp("machine"), [*row_of(RX_7900_XTX, 2), apu])


def files_of(machine):
    return sorted(str(path) for path in machine.root.rglob("*") if path.is_file())


def discover(machine, **options):
    gpus = discover_gpus(
        topology_dir=machine.topology_dir,
        drm_dir=machine.drm_dir,
        with_telemetry=True,
        **options,
    )
    for gpu in gpus:
        assert GpuFacts.model_validate_json(gpu.model_dump_json()) == gpu
        assert re.fullmatch(
            r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", gpu.pci_address or "0000:00:00.0"
        )
        assert re.fullmatch(r"gfx[0-9]{1,2}[0-9a-f]{2}", gpu.gfx or "gfx900")
        assert gpu.wave_size in (None, 32, 64)
        assert gpu.vram_bytes is None or gpu.vram_bytes > 0
    return gpus


def lines_of_numbers():
    keys = st.sampled_from(
        ["simd_count", "simd_per_cu", "wave_front_size", "gfx_target_version", "location_id",
         "domain", "drm_render_minor", "unique_id", "node_to", "weight", "type", "flags",
         "max_bandwidth", "heap_type", "size_in_bytes", "device_id", "max_engine_clk_fcompute"]
    )  # fmt: skip
    numbers = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([0, 1, 2**32 - 1, 2**63]))
    lines = st.lists(st.tuples(keys, numbers), max_size=12)
    return lines.map(lambda pairs: "".join(f"{k} {n}\n" for k, n in pairs).encode())


damages = st.one_of(
    st.sampled_from(ERRNOS),
    st.binary(max_size=200),
    st.sampled_from(GARBAGE),
    lines_of_numbers(),
    st.integers(0, 60).map(lambda length: slice(length)),
)


def damaged_reader(by_path):
    def read(path):
        damage = by_path.get(path)
        if isinstance(damage, bytes):
            return damage
        if isinstance(damage, int):
            raise OSError(damage, os.strerror(damage), path)
        return read_file(path)[damage or slice(None)]

    return read


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_damage_to_any_file_only_removes_facts(machine, data):
    files = files_of(machine)
    by_path = data.draw(st.dictionaries(st.sampled_from(files), damages, max_size=len(files)))
    discover(machine, read=damaged_reader(by_path))


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_damage_to_one_gpu_does_not_affect_the_others(machine, data):
    node = f"{machine.node_dir(2)}/"
    files = [path for path in files_of(machine) if path.startswith(node)]
    by_path = data.draw(st.dictionaries(st.sampled_from(files), damages, min_size=1))
    whole = {gpu.node: gpu for gpu in discover(machine)}
    gpus = {gpu.node: gpu for gpu in discover(machine, read=damaged_reader(by_path))}
    fields = {"gfx", "cu_count", "wave_size", "vram_bytes", "render_minor", "device_id"}
    for number in (1, 3):
        assert gpus[number].model_dump(include=fields) == whole[number].model_dump(include=fields)


@given(noise=st.binary(max_size=400))
@settings(max_examples=100, deadline=None)
def test_a_tree_of_noise_gives_no_wrong_facts(machine, noise):
    discover(machine, read=lambda _: noise)


@pytest.mark.parametrize("number", ERRNOS)
def test_a_tree_that_only_returns_errors(machine, number):
    files = dict.fromkeys(files_of(machine), number)
    gpus = discover(machine, read=damaged_reader(files))
    is_denial = number in (errno.EPERM, errno.EACCES)
    # To a node that may not be read belongs a GPU; CPU nodes are never denied by the kernel.
    assert [gpu.is_accessible for gpu in gpus] == ([False] * 4 if is_denial else [])


def spoil(path, kind):
    if kind == "removed":
        path.unlink()
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "loop":
        path.unlink()
        path.symlink_to(path)
    else:
        path.write_bytes(b"\xff\x00" * 3000)


@pytest.mark.parametrize("kind", ["removed", "folder", "loop", "binary"])
def test_files_damaged_on_disk_one_after_the_other(machine, tmp_path, kind):
    shutil.copytree(machine.root, tmp_path / "copy")
    copy = type(machine)(tmp_path, tmp_path / "copy/topology", tmp_path / "copy/drm", machine.gpus)
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        spoil(path, kind)
        discover(copy)


@pytest.fixture
def as_nobody():
    """Without root's right to read everything; its owner may not enter such a folder either."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.fixture
def closed_folder(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # what is above it may be closed, too
    put(tmp_path / "1/properties", "simd_count 4\n")
    (tmp_path / "1").chmod(0o644)
    return Path()


def test_a_listed_node_that_cannot_be_entered_is_inaccessible(closed_folder, as_nobody):
    (gpu,) = discover_gpus(topology_dir=closed_folder, drm_dir=None)
    assert (gpu.node, gpu.is_accessible) == (1, False)


def test_folders_replaced_by_files(tmp_path):
    for name in ("topology", "drm"):
        (tmp_path / name).write_text("not a folder")
    assert discover_gpus(topology_dir=tmp_path / "topology", drm_dir=tmp_path / "drm") == []
