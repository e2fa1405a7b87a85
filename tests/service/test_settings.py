from pathlib import Path

import pytest

from service.settings import Settings


@pytest.mark.parametrize(
    ("bind", "public_bind", "needs_keys"),
    [
        ("127.0.0.1:8321", None, False),
        ("[::1]:8321", None, False),
        ("localhost:8321", None, False),
        ("0.0.0.0:8321", None, True),
        ("192.168.1.5:8321", None, True),
        ("0.0.0.0:8321", "127.0.0.1:9000", False),
        ("0.0.0.0:8321", "0.0.0.0:8321", True),
        ("127.0.0.1:8321", "workstation:8321", True),
    ],
)
def test_keys_are_required_if_others_can_reach_the_published_address(bind, public_bind, needs_keys):
    settings = Settings(bind=bind, public_bind=public_bind)
    assert settings.needs_keys is needs_keys
    assert Settings(bind=bind, public_bind=public_bind, auth="keys").needs_keys


def test_the_worker_key_is_with_the_other_keys_unless_a_file_is_set(tmp_path):
    settings = Settings(state_dir=tmp_path)
    assert settings.resolved_worker_key_file == tmp_path / "keys" / "worker.key"
    elsewhere = Settings(state_dir=tmp_path, worker_key_file=Path("/secrets/worker.key"))
    assert elsewhere.resolved_worker_key_file == Path("/secrets/worker.key")


def test_the_files_of_an_existing_folder_become_private(tmp_path):
    names = ("redkiln.db", "redkiln.db-wal", "logs")
    (tmp_path / "logs").mkdir(mode=0o755)
    for name in names[:2]:
        (tmp_path / name).touch(mode=0o644)
    Settings(state_dir=tmp_path).prepare_state_dir()
    assert [oct((tmp_path / name).stat().st_mode)[-3:] for name in names] == ["600", "600", "700"]


def test_a_new_database_is_private_from_its_first_byte(tmp_path):
    Settings(state_dir=tmp_path).prepare_state_dir()
    assert oct((tmp_path / "redkiln.db").stat().st_mode)[-3:] == "600"
    Settings(state_dir=tmp_path / "x", database_url="postgresql://x/y").prepare_state_dir()
    assert not (tmp_path / "x" / "redkiln.db").exists()
