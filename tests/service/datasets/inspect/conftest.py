import difflib
import io
import struct
import tarfile
import zipfile
import zlib

import pytest
from PIL import Image


def encode(size=(8, 8), *, mode="RGB", kind="PNG", colour=0):
    buffer = io.BytesIO()
    Image.new(mode, size, colour).save(buffer, kind)
    return buffer.getvalue()


def zip_bytes(files, *, method=zipfile.ZIP_DEFLATED, folders=()):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for folder in folders:
            archive.mkdir(folder)
        for name, content in files:
            archive.writestr(zipfile.ZipInfo(name) if method == 0 else name, content)
    return buffer.getvalue()


def tar_bytes(files, *, mode="w", members=(), folders=()):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:
        for folder in folders:
            info = tarfile.TarInfo(folder)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in members:
            archive.addfile(info)
    return buffer.getvalue()


def png_with_header(width, height):
    """A PNG whose header announces a size that its few bytes cannot contain."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    data = chunk(b"IDAT", zlib.compress(b"\0" * 64))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + data + chunk(b"IEND", b"")


class Make:
    """Makers of images and archives."""

    encode = staticmethod(encode)
    zip = staticmethod(zip_bytes)
    tar = staticmethod(tar_bytes)
    png_with_header = staticmethod(png_with_header)

    @staticmethod
    def image_set(*, prefix="", classes=("cat", "dog"), train=3, test=1):
        splits = {"train/": train, "test/": test} if test else {"": train}
        return [
            (f"{prefix}{split}{name}/{number}.png", encode(colour=number))
            for split, count in splits.items()
            for name in classes
            for number in range(count)
        ]


@pytest.fixture
def comparisons(monkeypatch):
    """The number of names each name was compared with, to suggest the nearest one."""
    close = difflib.get_close_matches
    counts = []

    def get_close_matches(word, possibilities, **options):
        counts.append(len(possibilities))
        return close(word, possibilities, **options)

    monkeypatch.setattr(difflib, "get_close_matches", get_close_matches)
    return counts


@pytest.fixture(scope="session")
def make():
    return Make
