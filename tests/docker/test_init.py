import os
import stat

import pytest

from docker import init
from docker.user import REDIS_UID, REDKILN_UID

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")


@needs_root
def test_each_secret_is_readable_by_its_user(tmp_path):
    assert init.prepare_secrets(tmp_path)
    owners = {path.name: (path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in
              tmp_path.iterdir()}  # fmt: skip
    assert owners == {
        "redis.conf": (REDIS_UID, 0o400),
        "redis.password": (REDIS_UID, 0o400),
        "broker.url": (REDKILN_UID, 0o400),
        "keys": (REDKILN_UID, 0o700),
    }


@needs_root
def test_the_server_and_its_clients_get_the_same_password(tmp_path):
    init.prepare_secrets(tmp_path)
    password = (tmp_path / "redis.password").read_text()
    assert len(password) == 64
    assert (tmp_path / "redis.conf").read_text() == init.render_config(password)
    assert (tmp_path / "broker.url").read_text() == f"redis://:{password}@redis:6379/0\n"


@needs_root
def test_a_second_run_changes_nothing(tmp_path):
    init.prepare_secrets(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert not init.prepare_secrets(tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@needs_root
def test_an_interrupted_run_is_repeated_completely(tmp_path):
    (tmp_path / "redis.conf").write_text("requirepass half\n")
    (tmp_path / "redis.part").write_text("hal")
    assert init.prepare_secrets(tmp_path)
    password = (tmp_path / "redis.password").read_text()
    assert (tmp_path / "redis.conf").read_text() == init.render_config(password)
