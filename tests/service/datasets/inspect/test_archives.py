"""Each refusal of an archive, through `inspect` in this process."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile

import pytest

from redkiln.datasets import DatasetIndex
from redkiln.tables import TableOptions
from service.datasets.inspect.__main__ import inspect
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, Refused

LIMITS = Limits(max_ratio=50, max_total_ratio=20, max_file_bytes=4 * 1024**2)


@pytest.fixture
def look(tmp_path):
    def look(content, *, limits=LIMITS, **options):
        path = tmp_path / "upload"
        path.write_bytes(content)
        for left in tmp_path.glob("*.tar"):
            left.unlink()
        order = Order(
            kind="archive",
            path=str(path),
            parent_pid=os.getpid(),
            limits=limits,
            options=TableOptions(**options),
        )
        try:
            report = inspect(order, work_dir=tmp_path)
        except Refused as refused:
            return None, refused.problems
        return None if report.errors else read_index(tmp_path), report.errors

    return look


def read_index(work_dir):
    return DatasetIndex.model_validate_json((work_dir / INDEX).read_bytes())


def codes(errors):
    return {(error.code, error.path) for error in errors}


def link(name, target, kind):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


@pytest.mark.parametrize("kind", ["zip", "tar", "folder"])
def test_hidden_images_are_counted_in_a_note(make, tmp_path, kind):
    path, files = tmp_path / "set", make.image_set()
    files += [("train/cat/.1.png", files[0][1]), ("train/cat/._0.png", b"x")]
    if kind == "folder":
        for name, content in files:
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    else:
        path.write_bytes(make.zip(files) if kind == "zip" else make.tar(files))
    order_kind = "folder" if kind == "folder" else "archive"
    order = Order(kind=order_kind, path=str(path), parent_pid=os.getpid())
    notes = inspect(order, work_dir=tmp_path).notes
    assert notes[-2].startswith("a hidden file is left out: train/cat/.1.png; to use it")
    assert notes[-1] == "1 file of macOS is left out, such as train/cat/._0.png"


@pytest.mark.parametrize("pack", ["zip", "zip stored", "tar", "tar.gz", "tar.bz2", "tar.xz"])
@pytest.mark.parametrize("prefix", ["", "pets/", "./"])
def test_every_kind_of_archive_is_recognised_by_its_content(make, look, pack, prefix):
    files = make.image_set(prefix=prefix)
    content = {
        "zip": lambda: make.zip(files),
        "zip stored": lambda: make.zip(files, method=zipfile.ZIP_STORED),
        "tar": lambda: make.tar(files),
        "tar.gz": lambda: make.tar(files, mode="w:gz"),
        "tar.bz2": lambda: make.tar(files, mode="w:bz2"),
        "tar.xz": lambda: make.tar(files, mode="w:xz"),
    }[pack]()
    index, errors = look(content)
    assert errors == []
    assert index.classes == ["cat", "dog"]
    names = {sample.path for split in index.splits.values() for sample in split}
    assert names == {name for name, _ in files}


def test_more_bad_images_are_skipped_on_request_and_named(make, look):
    files = [*make.image_set(), ("train/cat/bad.png", b"no image"), ("train/dog/bad.png", b"")]
    _, errors = look(make.zip(files))
    assert errors[0].code == "too_many_bad_files"
    assert "skip_bad=" in errors[0].message
    assert look(make.zip(files), skip_bad=1)[1]
    index, errors = look(make.zip(files), skip_bad=2)
    assert errors == []
    assert "skipped: train/cat/bad.png, train/dog/bad.png" in index.notes[0]


@pytest.mark.parametrize("layout", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_and_foreign_names_in_tars_are_read(make, look, layout):
    long = "é" * 60 if layout != tarfile.USTAR_FORMAT else "e" * 60
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=layout) as archive:
        for name in ("cat", "dog"):
            for number in range(2):
                info = tarfile.TarInfo(f"{name}/{long}{number}.png")
                info.size = len(make.encode())
                archive.addfile(info, io.BytesIO(make.encode()))
    index, errors = look(buffer.getvalue())
    assert errors == []
    assert long in index.splits["train"][0].path


@pytest.mark.parametrize("pack", ["zip", "tar"])
@pytest.mark.parametrize("name", ["../evil.png", "/etc/evil.png", "cat/../../evil.png", "c:/e.png"])
def test_names_that_point_outside_refuse_the_set(make, look, pack, name):
    content = getattr(make, pack)([*make.image_set(), (name, make.encode())])
    _, errors = look(content)
    assert codes(errors) == {("unsafe_path", name)}


@pytest.mark.parametrize("pack", ["zip", "tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names_refuse_the_set(make, look, pack):
    content = getattr(make, pack)([*make.image_set(), ("train/cat/0.png", make.encode())])
    _, errors = look(content)
    assert codes(errors) == {("duplicate_name", "train/cat/0.png")}


@pytest.mark.parametrize(
    ("member", "code"),
    [
        (link("train/cat/l.png", "/etc/passwd", tarfile.SYMTYPE), "symlink"),
        (link("train/cat/l.png", "train/cat/0.png", tarfile.LNKTYPE), "hardlink"),
        (link("train/cat/l.png", "", tarfile.CHRTYPE), "special_file"),
        (link("train/cat/l.png", "", tarfile.FIFOTYPE), "special_file"),
    ],
)
def test_links_and_devices_in_tars_refuse_the_set(make, look, member, code):
    _, errors = look(make.tar(make.image_set(), members=[member]))
    assert codes(errors) == {(code, "train/cat/l.png")}


@pytest.mark.parametrize(
    ("mode", "code"),
    [(stat.S_IFLNK, "symlink"), (stat.S_IFCHR, "special_file"), (stat.S_IFIFO, "special_file")],
)
def test_links_and_devices_in_zips_refuse_the_set(make, look, mode, code):
    buffer = io.BytesIO(make.zip(make.image_set()))
    with zipfile.ZipFile(buffer, "a") as archive:
        info = zipfile.ZipInfo("train/cat/l.png")
        info.external_attr = (mode | 0o644) << 16
        archive.writestr(info, "/etc/passwd")
    _, errors = look(buffer.getvalue())
    assert codes(errors) == {(code, "train/cat/l.png")}


def test_encrypted_zips_are_refused(make, look):
    content = bytearray(make.zip([("cat/1.png", make.encode())]))
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + offset] |= 1
    _, errors = look(bytes(content))
    assert codes(errors) == {("encrypted", "cat/1.png")}


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_uncommon_zip_methods_are_refused(make, look, method):
    _, errors = look(make.zip([("cat/1.png", make.encode())], method=method))
    assert codes(errors) == {("unsupported_compression", "cat/1.png")}


def overlapping_zip(files):
    """Two directory entries that share one file's bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files:
            archive.writestr(name, content)
        second = archive.infolist()[1]
        second.header_offset = archive.infolist()[0].header_offset
        second.filename = second.orig_filename = "cat/1.png"
        archive._didModify = True
    return buffer.getvalue()


def test_overlapping_entries_are_refused(make, look):
    content = overlapping_zip([("cat/1.png", make.encode()), ("cat/2.png", make.encode())])
    _, errors = look(content)
    assert ("overlapping_entries", "cat/1.png") in codes(errors)


def test_a_zip_bomb_is_refused_by_its_headers(make, look):
    content = make.zip([*make.image_set(), ("train/cat/big.png", bytes(3 * 1024**2))])
    _, errors = look(content)
    assert codes(errors) == {("compression_bomb", "train/cat/big.png")}


def test_a_zip_whose_headers_hide_the_size_is_refused_while_inflating(make, look):
    content = bytearray(make.zip([*make.image_set(), ("train/cat/big.png", bytes(3 * 1024**2))]))
    at = content.rindex(b"PK\x01\x02")
    struct.pack_into("<I", content, at + 24, 1000)  # the directory's uncompressed size
    _, errors = look(bytes(content))
    assert codes(errors) == {("compression_bomb", "train/cat/big.png")}


def test_many_small_files_that_together_are_a_bomb_are_refused(look, make):
    _, errors = look(make.zip([(f"cat/{number}.txt", bytes(500_000)) for number in range(100)]))
    assert codes(errors) == {("compression_bomb", None)}


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_tar_that_is_a_bomb_is_refused_while_unpacking(make, look, compress):
    content = compress(make.tar([("cat/1.png", bytes(30 * 1024**2))]))
    _, errors = look(content)
    assert codes(errors) == {("compression_bomb", None)}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_tar_is_refused(make, look, mode, share):
    content = make.tar(make.image_set(), mode=mode)
    end = int((len(content) - 1024 if mode == "w" else len(content)) * share)
    index, errors = look(content[:end])
    assert index is None
    assert {error.code for error in errors} == {"bad_archive"}


def test_a_tar_without_its_end_marker_is_refused(make, look):
    content = make.tar(make.image_set()).rstrip(b"\0")
    padded = content + bytes(-len(content) % 512)
    _, errors = look(padded)
    assert {error.code for error in errors} == {"bad_archive"}


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_truncated_zip_is_refused(make, look, share):
    content = make.zip(make.image_set())
    index, errors = look(content[: int(len(content) * share)])
    assert index is None
    assert {error.code for error in errors} == {"bad_archive"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\xff\xd8\xff\xe0 a photograph",
        b"7z\xbc\xaf\x27\x1c..",
        bytes(range(256)) * 9,
    ],
)
def test_a_file_that_is_not_an_archive_is_refused(look, content):
    index, errors = look(content)
    assert index is None
    assert codes(errors) == {("not_an_archive", None)}


@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_an_empty_archive_has_no_classes(make, look, pack):
    _, errors = look(getattr(make, pack)([]))
    assert codes(errors) == {("no_classes", None)}


@pytest.mark.parametrize("pack", ["zip", "tar"])
def test_an_empty_class_folder_refuses_the_set(make, look, pack):
    content = getattr(make, pack)(make.image_set(), folders=["train/emu"])
    _, errors = look(content)
    assert codes(errors) == {("empty_class", "train/emu")}


def test_too_many_entries_are_refused(make, look):
    _, errors = look(make.zip(make.image_set()), limits=Limits(max_entries=5))
    assert codes(errors) == {("too_many_entries", None)}


def test_a_single_image_bomb_refuses_the_set(make, look):
    files = [
        *make.image_set(train=300),
        ("train/cat/bomb.png", make.png_with_header(50_000, 50_000)),
    ]
    _, errors = look(make.zip(files))
    assert codes(errors) == {("image_bomb", "train/cat/bomb.png")}


def test_a_damaged_file_is_skipped_and_listed(make, tmp_path):
    files = make.image_set(train=100)
    content = bytearray(make.zip(files, method=zipfile.ZIP_STORED))
    at = content.index(make.encode(colour=50))
    content[at + 30] ^= 0xFF
    path = tmp_path / "upload"
    path.write_bytes(content)
    order = Order(kind="archive", path=str(path), parent_pid=os.getpid())
    report = inspect(order, work_dir=tmp_path)
    assert report.errors == []
    assert [(p.code, p.path) for p in report.skipped] == [("bad_file", "train/cat/50.png")]
    assert report.num_skipped == 1


def test_a_large_set_is_probed_by_several_processes_with_the_same_result(make, tmp_path):
    path = tmp_path / "upload"
    path.write_bytes(make.zip(make.image_set(train=300)))
    one, two = (
        (inspect(order, work_dir=tmp_path), read_index(tmp_path))
        for order in (
            Order(kind="archive", path=str(path), parent_pid=os.getpid(), num_processes=number)
            for number in (1, 2)
        )
    )
    assert one == two
    assert one[0].errors == []
