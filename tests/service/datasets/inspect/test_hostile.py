"""Whatever is uploaded, an inspection ends with a report."""

import io
import os
import tarfile
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused

QUICK = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
LIMITS = Limits(max_entries=1000, max_total_bytes=50_000_000, max_file_bytes=1_000_000)
NAMES = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.sampled_from(["train", "test", "cat", "..", ".", "", "a", "1.png"]), max_size=5
    ).map("/".join),
)
MUTATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
        st.tuples(st.just("cut"), st.floats(0, 1), st.integers(0, 2000)),
        st.tuples(st.just("repeat"), st.floats(0, 1), st.integers(1, 600)),
        st.tuples(st.just("zero"), st.floats(0, 1), st.integers(1, 600)),
        st.tuples(st.just("ones"), st.floats(0, 1), st.integers(1, 12)),
    ),
    min_size=1,
    max_size=6,
)


def look(tmp_path, content):
    path = tmp_path / "upload"
    path.write_bytes(content)
    (tmp_path / "unpacked.tar").unlink(missing_ok=True)
    order = Order(kind="archive", path=str(path), parent_pid=os.getpid(), limits=LIMITS)
    for left in (*tmp_path.glob("plain-*"), *tmp_path.glob("table-*"), tmp_path / INDEX):
        left.unlink(missing_ok=True)
    try:
        report = inspect(order, work_dir=tmp_path)
    except Refused as refused:
        report = InspectionReport(errors=refused.problems)
    assert all(problem.message for problem in report.errors)
    assert (tmp_path / INDEX).exists() != bool(report.errors)
    assert report.model_dump_json()


def mutate(content, mutations):
    data = bytearray(content)
    for kind, share, number in mutations:
        at = int(share * max(0, len(data) - 1))
        if kind == "flip" and data:
            data[at] ^= number
        elif kind == "cut":
            del data[at : at + number]
        elif kind == "repeat":
            data[at:at] = data[at : at + number]
        elif kind == "zero":
            data[at : at + number] = bytes(min(number, len(data) - at))
        elif kind == "ones":
            data[at : at + number] = b"\xff" * min(number, len(data) - at)
    return bytes(data)


@pytest.mark.parametrize("pack", ["zip", "tar", "tar.gz", "tar.xz", "pax"])
@QUICK
@given(mutations=MUTATIONS)
def test_a_damaged_archive_ends_with_a_report(make, tmp_path, pack, mutations):
    files = make.image_set()
    if pack == "zip":
        content = make.zip(files)
    elif pack == "pax":
        content = make.tar([(f"{'long' * 30}/{name}", data) for name, data in files])
    else:
        content = make.tar(files, mode="w:" + pack.partition(".")[2])
    look(tmp_path, mutate(content, mutations))


@pytest.mark.filterwarnings("ignore:Duplicate name")
@QUICK
@given(names=st.lists(NAMES, max_size=8), kinds=st.lists(st.integers(0, 255), max_size=8))
def test_any_names_and_kinds_in_a_tar_end_with_a_report(make, tmp_path, names, kinds):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", errors="surrogatepass") as archive:
        for position, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.type = bytes([kinds[position]]) if position < len(kinds) else tarfile.REGTYPE
            content = make.encode() if info.isreg() else b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    look(tmp_path, buffer.getvalue())


@pytest.mark.filterwarnings("ignore:Duplicate name")
@QUICK
@given(
    names=st.lists(NAMES, max_size=8), attributes=st.lists(st.integers(0, 2**32 - 1), max_size=8)
)
def test_any_names_and_attributes_in_a_zip_end_with_a_report(make, tmp_path, names, attributes):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for position, name in enumerate(names):
            info = zipfile.ZipInfo(name)
            info.external_attr = attributes[position] if position < len(attributes) else 0
            archive.writestr(info, make.encode())
    look(tmp_path, buffer.getvalue())


@QUICK
@given(content=st.binary(max_size=3000), magic=st.sampled_from([b"PK\x03\x04", b"\x1f\x8b", b""]))
def test_any_bytes_end_with_a_report(tmp_path, content, magic):
    look(tmp_path, magic + content)


@QUICK
@given(
    size=st.integers(-(2**62), 2**62),
    kind=st.sampled_from([b"0", b"x", b"g", b"L", b"K", b"S", b"5", b"\0"]),
)
def test_any_size_in_a_tar_header_ends_with_a_report(make, tmp_path, size, kind):
    content = bytearray(make.tar(make.image_set()))
    header = tarfile.TarInfo("train/cat/0.png")
    header.size = size
    block = bytearray(header.tobuf(format=tarfile.GNU_FORMAT)[:512])
    block[156:157] = kind
    checksum = sum(block) - sum(block[148:156]) + 8 * 32
    block[148:156] = b"%06o\0 " % checksum
    content[0:512] = block
    look(tmp_path, bytes(content))


def test_a_negative_pax_size_ends_with_a_report(make, tmp_path):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("train/cat/0.png")
        info.pax_headers = {"size": "-4096"}
        archive.addfile(info)
    look(tmp_path, buffer.getvalue())
