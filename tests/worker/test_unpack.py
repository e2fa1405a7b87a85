import io
import os
import tarfile
import zipfile

import pytest

from worker.process.failed import TrainingFailed
from worker.unpack import unpack


@pytest.fixture
def target(tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    return target


@pytest.fixture
def make_tar(tmp_path):
    def make(*members):
        path = tmp_path / "code.tar"
        with tarfile.open(path, "w") as packed:
            for name, content in members:
                info = tarfile.TarInfo(name)
                if isinstance(content, bytes):
                    info.size = len(content)
                    packed.addfile(info, io.BytesIO(content))
                else:
                    info.type, info.linkname = content
                    packed.addfile(info)
        return path

    return make


def test_files_and_folders_are_unpacked_unchanged(make_tar, target):
    archive = make_tar(("a/b.py", b"x = 1"), ("run.sh", b"#!"), ("empty", (tarfile.DIRTYPE, "")))
    assert unpack(archive, target, what="code") == 2
    assert (target / "a/b.py").read_bytes() == b"x = 1"
    assert (target / "empty").is_dir()


def test_a_zip_is_unpacked_and_keeps_executable_bits(tmp_path, target):
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as packed:
        info = zipfile.ZipInfo("run.sh")
        info.external_attr = 0o100755 << 16
        packed.writestr(info, "#!/bin/sh")
        packed.writestr("a/b.txt", "x")
    assert unpack(path, target, what="data set") == 2
    assert os.access(target / "run.sh", os.X_OK)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "..\\x"])
def test_a_name_that_leads_out_is_refused_and_nothing_is_written_outside(make_tar, target, name):
    with pytest.raises(TrainingFailed, match="leads out of the folder"):
        unpack(make_tar((name, b"x")), target, what="code")
    assert [path.name for path in target.parent.iterdir() if path != target] == ["code.tar"]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ((tarfile.SYMTYPE, "/etc"), "is a link"),
        ((tarfile.LNKTYPE, "a"), "is a link"),
        ((tarfile.FIFOTYPE, ""), "not a regular file"),
        ((tarfile.CHRTYPE, ""), "not a regular file"),
    ],
)
def test_links_and_devices_are_refused_by_name(make_tar, target, kind, words):
    with pytest.raises(TrainingFailed, match=f"'odd'.*{words}"):
        unpack(make_tar(("odd", kind)), target, what="code")
    assert not (target / "odd").exists()


def test_a_link_in_a_zip_is_refused(tmp_path, target):
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as packed:
        info = zipfile.ZipInfo("link")
        info.external_attr = 0o120777 << 16
        packed.writestr(info, "/etc/passwd")
    with pytest.raises(TrainingFailed, match="is a link"):
        unpack(path, target, what="code")


def test_an_archive_over_the_limit_is_refused(make_tar, target):
    with pytest.raises(TrainingFailed, match="unpacks to more than 4 bytes"):
        unpack(make_tar(("a", b"12345")), target, what="code", max_bytes=4)


def test_a_damaged_archive_is_reported(make_tar, target):
    archive = make_tar(("a", b"x" * 5000))
    os.truncate(archive, 2000)
    with pytest.raises(TrainingFailed, match="is damaged"):
        unpack(archive, target, what="code")
