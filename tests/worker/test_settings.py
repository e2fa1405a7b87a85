import pytest
from pydantic import ValidationError

from worker.settings import WorkerSettings


def test_the_key_is_read_from_its_file_each_time(tmp_path):
    path = tmp_path / "worker.key"
    settings = WorkerSettings(worker_key="rk_unused", worker_key_file=path)
    assert settings.load_key() is None
    for key in ("rk_1", "rk_2"):
        path.write_text(f"{key}\n")
        assert settings.load_key() == key


def test_a_key_can_be_set_directly():
    assert WorkerSettings(worker_key="rk_1").load_key() == "rk_1"


def test_the_key_is_not_shown():
    assert "rk_1" not in repr(WorkerSettings(worker_key="rk_1"))


def test_the_address_must_be_valid():
    assert WorkerSettings(service_url="http://host:1/").service_url == "http://host:1"
    with pytest.raises(ValidationError, match="REDKILN_SERVICE_URL"):
        WorkerSettings(service_url="host:1")


def test_a_command_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("REDKILN_TRAINER_COMMAND", '["python", "mine.py"]')
    assert WorkerSettings().trainer_command == ["python", "mine.py"]
