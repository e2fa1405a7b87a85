import hashlib
import io
import os
import tarfile
import zipfile

import pytest

from redkiln.client.packing import list_hidden, open_package
from redkiln.errors import PackingError


def pack(path):
    return b"".join(open_package(path).chunks())


def test_a_folder_becomes_a_tar_that_tarfile_can_read(image_folder):
    with tarfile.open(fileobj=io.BytesIO(pack(image_folder))) as archive:
        assert archive.getnames() == [
            "daisy/0.png", "daisy/1.png", "daisy/2.png", "rose/0.png", "rose/1.png",
        ]  # fmt: skip
        assert archive.extractfile("rose/1.png").read() == b"rose" * 200


def test_the_same_files_give_the_same_bytes_despite_other_times_and_modes(image_folder):
    before = pack(image_folder)
    for path in image_folder.rglob("*.png"):
        os.utime(path, (1, 1))
        path.chmod(0o600)
    (image_folder / "new").touch()
    (image_folder / "new").unlink()
    assert pack(image_folder) == before


def test_size_and_digest_are_those_of_the_bytes(image_folder):
    package = open_package(image_folder)
    content = b"".join(package.chunks())
    assert package.size_bytes == len(content)
    assert package.digest() == hashlib.sha256(content).hexdigest()


def test_a_class_without_images_is_included(image_folder):
    (image_folder / "tulip").mkdir()
    (image_folder / "tulip" / ".DS_Store").touch()
    content = pack(image_folder)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert archive.getmember("tulip").isdir()
    assert len(content) == open_package(image_folder).size_bytes


def test_hidden_files_are_left_out_and_can_be_listed(image_folder):
    (image_folder / "tulip").mkdir()
    for name in (".x.png", "tulip/.y.png", ".git/1.png", "z.png"):
        (image_folder / name).parent.mkdir(exist_ok=True)
        (image_folder / name).write_bytes(b"x")
    with tarfile.open(fileobj=io.BytesIO(pack(image_folder))) as archive:
        names = archive.getnames()
    assert "z.png" in names
    assert not [name for name in names if "/." in f"/{name}"]
    assert list_hidden(image_folder) == [".DS_Store", ".x.png", "tulip/.y.png"]


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 10240])
def test_files_of_every_size_are_padded_correctly(tmp_path, size):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.png").write_bytes(b"x" * size)
    content = pack(tmp_path)
    assert len(content) == open_package(tmp_path).size_bytes
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        assert len(archive.extractfile("a/x.png").read()) == size


def test_long_and_non_ascii_names_are_kept(tmp_path):
    name = "müller-" * 30 + ".png"
    (tmp_path / "花").mkdir()
    (tmp_path / "花" / name).write_bytes(b"x")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path))) as archive:
        assert archive.getnames() == [f"花/{name}"]


def test_links_are_followed_and_loops_are_refused(tmp_path, image_folder):
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "daisy").symlink_to(image_folder / "daisy")
    (linked / "rose").mkdir()
    (linked / "rose" / "r.png").symlink_to(image_folder / "rose" / "0.png")
    with tarfile.open(fileobj=io.BytesIO(pack(linked))) as archive:
        assert "daisy/0.png" in archive.getnames()
        assert archive.getmember("rose/r.png").isreg()
    (linked / "loop").symlink_to(linked)
    with pytest.raises(PackingError, match="links to a folder that contains it"):
        open_package(linked)


def test_a_file_that_changes_while_it_is_sent_is_an_error(image_folder):
    package = open_package(image_folder)
    (image_folder / "rose" / "1.png").write_bytes(b"longer" * 1000)
    with pytest.raises(PackingError, match=r"1\.png changed"):
        b"".join(package.chunks())


def test_archives_are_sent_unchanged(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/b.png", b"x")
    package = open_package(path)
    assert package.media_type == "application/zip"
    assert b"".join(package.chunks()) == path.read_bytes()


def test_a_tar_that_ends_with_a_zip_is_a_tar(tmp_path):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("x", b"x")
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("inner.zip")
        info.size = len(inner.getvalue())
        archive.addfile(info, io.BytesIO(inner.getvalue()))
    assert open_package(path).media_type == "application/x-tar"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "there is no file or folder"),
        (lambda p: p.mkdir(), "has no files"),
        (lambda p: p.write_text("hello"), "is not a zip or tar"),
        (lambda p: p.write_bytes(b""), "thing is empty"),
    ],
)
def test_paths_that_cannot_be_sent_are_refused_with_a_reason(tmp_path, make, words):
    make(tmp_path / "thing")
    with pytest.raises(PackingError, match=words):
        open_package(tmp_path / "thing")


def test_an_empty_table_is_refused_as_empty(tmp_path):
    (tmp_path / "houses.csv").touch()
    with pytest.raises(PackingError, match=r"houses\.csv is empty"):
        open_package(tmp_path / "houses.csv")
