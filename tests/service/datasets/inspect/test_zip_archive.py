import io
import struct
import zipfile

import pytest

from service.datasets.inspect import zip_archive
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.report import Refused
from service.datasets.inspect.zip_archive import list_zip, read_zip_entry


@pytest.fixture
def packed(tmp_path):
    """Writes bytes to a file and opens it."""
    files = []

    def open_packed(content):
        path = tmp_path / "packed.zip"
        path.write_bytes(content)
        files.append(path.open("rb"))
        return files[-1]

    yield open_packed
    for file in files:
        file.close()


def pack(names, *, method=zipfile.ZIP_DEFLATED, comment=b""):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name in names:
            archive.writestr(name, name * 3)
        archive.comment = comment
    return buffer.getvalue()


def read_all(file):
    listing = list_zip(file, limits=Limits())
    return {
        entry.path: read_zip_entry(file.fileno(), entry, limits=Limits()).decode()
        for entry in listing.files
    }


def refusal(file):
    with pytest.raises(Refused) as caught:
        list_zip(file, limits=Limits())
    return caught.value.problems[0]


@pytest.mark.parametrize("piece_bytes", [60, 61, 100, 2**20])
def test_a_directory_is_read_in_pieces(packed, monkeypatch, piece_bytes):
    monkeypatch.setattr(zip_archive, "_PIECE_BYTES", piece_bytes)
    names = [f"cat/{number}.png" for number in range(20)]
    assert read_all(packed(pack(names))) == {name: name * 3 for name in names}


@pytest.mark.parametrize("before", [b"", b"#!/bin/sh\nunzip $0\n"], ids=["plain", "executable"])
@pytest.mark.parametrize("comment", [b"", b"c" * 65_535, b"PK\x05\x06 in it"])
def test_comments_and_what_precedes_an_archive_do_not_matter(packed, before, comment):
    content = before + pack(["cat/1.png", "dog/2.png"], comment=comment)
    assert set(read_all(packed(content))) == {"cat/1.png", "dog/2.png"}


def test_names_are_in_utf_8_or_the_code_page_of_dos(packed):
    content = pack(["café.png", "dog/ü.png"])
    old = pack(["cafX.png"]).replace(b"cafX", b"caf\x82")
    assert set(read_all(packed(content))) == {"café.png", "dog/ü.png"}
    assert set(list_names(packed(old))) == {"café.png"}


def list_names(file):
    return [entry.path for entry in list_zip(file, limits=Limits()).files]


def test_sizes_and_offsets_in_the_zip64_field_are_read(packed):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("cat/1.png", "dog/2.png"):
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as file:
                file.write(b"x" * 10)
        for info in archive.infolist():  # as a writer does that always uses the field
            sizes = struct.pack("<HHQQQ", 1, 24, 10, 10, info.header_offset)
            info.extra = sizes
    content = bytearray(buffer.getvalue())
    at = content.index(b"PK\x01\x02")
    while content[at : at + 4] == b"PK\x01\x02":
        content[at + 20 : at + 28] = b"\xff" * 8
        content[at + 42 : at + 46] = b"\xff" * 4
        name, extra = struct.unpack_from("<HH", content, at + 28)
        at += 46 + name + extra
    assert read_all(packed(bytes(content))) == {"cat/1.png": "x" * 10, "dog/2.png": "x" * 10}


def test_the_zip64_end_of_an_archive_is_read(packed, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    content = pack(["cat/1.png", "dog/2.png"])
    assert b"PK\x06\x06" in content
    assert set(read_all(packed(content))) == {"cat/1.png", "dog/2.png"}


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda c: c[: c.rindex(b"PK\x05\x06")], "its end is missing"),
        (lambda c: c[:-10] + struct.pack("<II", 2**31, 0) + c[-2:], "outside the archive"),
        (lambda c: c.replace(b"PK\x01\x02", b"PK\x01\x03"), "its directory is damaged"),
    ],
)
def test_a_damaged_directory_is_refused(packed, damage, text):
    found = refusal(packed(damage(pack(["cat/1.png"]))))
    assert (found.code, text in found.message) == ("bad_archive", True)


def test_entries_out_of_order_share_no_bytes(packed):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in ("a/1.png", "b/2.png", "c/3.png"):
            archive.writestr(name, name * 3)
        archive.filelist.reverse()
        archive._didModify = True
    assert list_names(packed(buffer.getvalue())) == ["c/3.png", "b/2.png", "a/1.png"]
