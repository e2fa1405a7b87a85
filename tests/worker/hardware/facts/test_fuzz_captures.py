"""Damaged copies of captured machines: no exception, and no fact that the whole copy lacks.

`make fuzz` tries 2,000 cases; the fast tests try 100, always the same.
"""

import errno
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redkiln.views.hardware import GpuFacts
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.sysfs import read_file
from worker.hardware.patches import decide_all
from worker.hardware.patches.facts import PatchFacts

CAPTURES = Path(__file__).parents[5] / "shared" / "captures" / "kfd"
pytestmark = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="the captures of real machines are not next to this checkout"
)
CASES = int(os.environ.get("REDKILN_FUZZ_CASES", "100"))
ERRNOS = (errno.ENOENT, errno.EPERM, errno.EACCES, errno.EIO, errno.ENODEV, errno.EISDIR)
LOST = st.one_of(st.sampled_from(ERRNOS), st.integers(0, 4000).map(lambda length: slice(length)))
"""A file that cannot be read, or whose end is missing."""
FOREIGN = st.one_of(st.binary(max_size=80), st.sampled_from([b"", b"\0" * 64, b"9" * 300, b"-1\n"]))
CHANGING = {"telemetry", "is_accessible", "is_gfx_inferred", "is_memory_approximate"}
"""Fields that are measured again, or that say what could be read."""

TWICE = {"core_clock_hz", "memory_clock_hz", "power_watts"}
"""Sensors that two files report, at different moments."""

often = settings(
    max_examples=CASES,
    deadline=None,
    derandomize="REDKILN_FUZZ_CASES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)


@cache
def list_machines():
    """The files of each captured machine that has a GPU, by the machine's folder."""
    folders = [path for path in sorted(CAPTURES.iterdir()) if path.is_dir()]
    files = {
        folder.name: [str(p) for p in sorted(folder.rglob("*")) if p.is_file() and p.stat().st_size]
        for folder in folders
        if discover(folder.name, read_file)
    }
    return {name: paths for name, paths in files.items() if paths}


@cache
def discover_whole(name):
    return {key_of(gpu): gpu for gpu in discover(name, read_file)}


def discover(name, read):
    root = CAPTURES / name
    return discover_gpus(topology_dir=root, drm_dir=root, read=read, with_telemetry=True)


def key_of(gpu):
    return ("node", gpu.node) if gpu.node is not None else ("card", gpu.card)


def damaged_reader(damages):
    def read(path):
        damage = damages.get(path)
        if isinstance(damage, bytes):
            return damage
        if isinstance(damage, int):
            raise OSError(damage, os.strerror(damage), path)
        return read_file(path)[damage or slice(None)]

    return read


@st.composite
def damaged_machines(draw, damage):
    name = draw(st.sampled_from(sorted(list_machines())))
    files = list_machines()[name]
    chosen = draw(st.lists(st.sampled_from(files), min_size=1, max_size=12, unique=True))
    return name, {path: draw(damage) for path in chosen}


def test_there_are_captured_machines_to_damage():
    assert len(list_machines()) >= 8
    assert sum(len(discover_whole(name)) for name in list_machines()) >= 10


@given(case=damaged_machines(LOST))
@often
def test_lost_files_remove_facts_and_invent_none(case):
    name, damages = case
    whole = discover_whole(name)
    for gpu in discover(name, damaged_reader(damages)):
        known = whole.get(key_of(gpu)) or find_card(gpu, whole)
        if known is None:  # a node whose file may not be read: a GPU without facts
            assert not gpu.is_accessible
            known = GpuFacts(node=gpu.node)
        for field, value in gpu.model_dump(exclude={*CHANGING, "links"}).items():
            if value not in (None, {}, "", False):
                assert value == getattr(known, field), (name, field, damages)
        right = {link.to_node: link.model_dump() for link in known.links or ()}
        for link in gpu.links or ():
            for field, value in link.model_dump(exclude_none=True).items():
                assert value == right[link.to_node][field], (name, field, damages)
        if gpu.telemetry is not None and known.telemetry is not None:
            check_sensors(gpu.telemetry, known.telemetry, damages)


def find_card(gpu, whole):
    """Return what is known of a card whose node could not be read."""
    same = (known for known in whole.values() if gpu.card is not None and known.card == gpu.card)
    return next(same, None)


def check_sensors(found, known, damages):
    for field, value in found.model_dump(exclude={"at", "read_seconds", *TWICE}).items():
        if value is not None:
            assert value == getattr(known, field), (field, damages)


@given(case=damaged_machines(st.one_of(LOST, FOREIGN)))
@often
def test_foreign_content_never_ends_in_an_exception(case):
    name, damages = case
    gpus = discover(name, damaged_reader(damages))
    for gpu in gpus:
        assert GpuFacts.model_validate_json(gpu.model_dump_json()) == gpu
    for outcome in decide_all(PatchFacts("rocm", tuple(gpus))):
        assert outcome.why
