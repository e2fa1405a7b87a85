import os

import pytest

from worker.beneath import open_beneath


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "x").write_bytes(b"mine")
    (tmp_path / "secret").write_bytes(b"not yours")
    return root


def test_a_file_below_is_opened(root):
    with open_beneath(root, "a/x") as file:
        assert file.read() == b"mine"


def test_no_link_on_the_path_is_followed(root):
    (root / "link").symlink_to(root.parent / "secret")
    (root / "folder").symlink_to(root.parent)
    (root / "inner").symlink_to(root / "a")
    for name in ("link", "folder/secret", "inner/x"):
        with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
            open_beneath(root, name)


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/etc/passwd", "", "a/", "a//x"])
def test_names_that_lead_elsewhere_are_refused(root, name):
    with pytest.raises(OSError):  # noqa: PT011  of whatever kind
        open_beneath(root, name)


def test_a_pipe_is_refused_without_waiting(root):
    os.mkfifo(root / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        open_beneath(root, "pipe")


def test_a_folder_is_not_a_file(root):
    with pytest.raises(OSError, match="not a regular file"):
        open_beneath(root, "a")
