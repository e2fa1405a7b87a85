import stat
import subprocess
import time

import pytest
from redis import AuthenticationError, Redis

from native import redis


def test_a_server_program_is_found():
    assert redis.find_server()


def test_a_server_on_the_path_is_preferred(tmp_path, monkeypatch):
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert redis.find_server() == str(program)


def test_the_socket_is_next_to_the_data_unless_its_path_is_too_long(tmp_path, monkeypatch):
    assert redis.choose_socket_path(tmp_path) == tmp_path.resolve() / "redis.sock"
    deep = tmp_path / ("x" * 100)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    path = redis.choose_socket_path(deep)
    try:
        assert len(str(path)) < redis.MAX_SOCKET_PATH_BYTES
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        path.parent.rmdir()


@pytest.fixture
def server(tmp_path):
    config_path, password = redis.write_config(tmp_path)
    command = redis.build_command(
        redis.find_server(),
        config_path=config_path,
        data_dir=tmp_path,
        socket_path=tmp_path / "s",
    )
    assert password not in " ".join(command)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    yield tmp_path / "s", password
    process.kill()
    process.wait()


def test_the_server_is_only_reached_by_its_socket_and_with_its_password(server):
    path, password = server
    for _ in range(500):
        if redis.answers(path, password=password):
            break
        time.sleep(0.01)
    assert redis.answers(path, password=password)
    assert not redis.answers(path, password="another")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((path.parent / "redis.conf").stat().st_mode) == 0o600
    stranger = Redis(unix_socket_path=str(path))
    with pytest.raises(AuthenticationError):
        stranger.eval("return 1", 0)
    stranger.close()
    client = Redis(unix_socket_path=str(path), password=password)
    settings = client.config_get("*")
    client.close()
    assert settings["port"] == "0"
    assert settings["appendonly"] == "yes"
    assert settings["maxmemory-policy"] == "noeviction"


def test_a_missing_socket_does_not_answer(tmp_path):
    assert not redis.answers(tmp_path / "none", password="any")
