import gzip
import io
import tarfile
import zipfile

import pytest

from worker.agent.data.sent_files import name_sent


def pack_zip():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("rides.csv", "a,b\n1,2\n")
    return packed.getvalue()


def pack_tar():
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a,b"))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"a,b\n1,2\n", "data.csv"),
        (b"a;b\n1;2\n", "data.csv"),
        (b"a\tb, c\td\n", "data.tsv"),
        (b'{"a": 1}\n', "data.jsonl"),
        (b'\xef\xbb\xbf {"a": 1}\n', "data.jsonl"),
        (b"PAR1....", "data.parquet"),
        ("a,b\n1,2\n".encode("utf-16"), "data.csv"),
        (b"\x89HDF\r\n\0\0a,b\n", "data"),
        (pack_zip(), "data"),
        (pack_tar(), "data"),
        (gzip.compress(pack_tar(), mtime=0), "data"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "data.csv.gz"),
        (gzip.compress(b'{"a": 1}\n', mtime=0), "data.jsonl.gz"),
        (gzip.compress(b"a,b\n", mtime=0)[:6], "data"),
    ],
)
def test_an_upload_is_named_by_its_content(tmp_path, content, name):
    path = tmp_path / "data"
    path.write_bytes(content)
    assert name_sent(path) == name
