import fcntl
import socket

import pytest

from native import stack as stack_module
from native.demo import build_spec
from native.stack import (
    DEFAULT_BIND,
    AddressInUse,
    Stack,
    StateInUse,
    choose_bind,
    find_free_port,
    is_free,
    is_healthy,
    reachable_host,
)
from redkiln.tasks import parse_spec


def test_another_port_is_used_if_the_default_is_taken(monkeypatch):
    port = find_free_port("127.0.0.1")
    monkeypatch.setattr(stack_module, "DEFAULT_BIND", f"127.0.0.1:{port}")
    with choose_bind() as bind:
        assert bind == f"127.0.0.1:{port}"
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free("127.0.0.1", port)
        with choose_bind() as bind:
            host, _, chosen = bind.rpartition(":")
            assert (host, int(chosen) == port) == ("127.0.0.1", False)


def test_two_stacks_that_start_at_once_get_two_addresses(monkeypatch):
    port = find_free_port("127.0.0.1")
    monkeypatch.setattr(stack_module, "DEFAULT_BIND", f"127.0.0.1:{port}")
    with choose_bind() as first, choose_bind() as second:
        assert first == f"127.0.0.1:{port}"
        assert second != first
    with choose_bind() as third:
        assert third == first


def test_the_default_address_is_a_loopback_one():
    assert DEFAULT_BIND == "127.0.0.1:8321"


@pytest.mark.parametrize(
    ("host", "reached"),
    [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("127.0.0.1", "127.0.0.1"), ("nas", "nas")],
)
def test_a_local_worker_reaches_the_service_on_any_bind_address(host, reached):
    assert reachable_host(host) == reached


def test_a_port_without_a_listener_is_not_healthy():
    assert not is_healthy(f"http://127.0.0.1:{find_free_port('127.0.0.1')}")


def test_two_stacks_cannot_share_a_state_folder(tmp_path):
    with (tmp_path / "stack.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StateInUse, match="Another stack"):
            Stack(tmp_path).start()


def test_a_chosen_address_that_another_program_uses_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        bind = f"127.0.0.1:{other.getsockname()[1]}"
        stack = Stack(tmp_path, environment={"REDKILN_BIND": bind})
        with pytest.raises(AddressInUse, match=f"Another program uses {bind}. .*--port PORT"):
            stack._start_service()
        assert stack.service is None


@pytest.mark.parametrize("inherit_settings", [True, False])
def test_settings_of_this_shell_are_only_inherited_on_request(
    tmp_path, monkeypatch, inherit_settings
):
    monkeypatch.setenv("REDKILN_AUTH", "keys")
    stack = Stack(tmp_path, inherit_settings=inherit_settings)
    assert ("REDKILN_AUTH" in stack._environment) is inherit_settings


@pytest.mark.parametrize("dataset", ["builtin:digits", "ds_1"])
def test_the_demos_job_is_a_valid_spec(dataset):
    spec = parse_spec({"task": "image-classification", **build_spec(dataset)})
    assert spec.model.name == "mnist-cnn"
