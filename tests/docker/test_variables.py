import pytest

from docker.variables import load_file_variables


def test_a_secret_is_read_from_the_file_in_its_variable(tmp_path):
    (tmp_path / "url").write_text("redis://:secret@redis:6379/0\n")
    given = {"PATH": "/bin", "REDKILN_BROKER_URL_FILE": str(tmp_path / "url")}
    assert load_file_variables(given) == {
        "PATH": "/bin",
        "REDKILN_BROKER_URL": "redis://:secret@redis:6379/0",
    }


def test_a_variable_takes_precedence_over_its_file():
    given = {"REDKILN_BROKER_URL": "redis://mine", "REDKILN_BROKER_URL_FILE": "/nowhere"}
    assert load_file_variables(given) == {"REDKILN_BROKER_URL": "redis://mine"}


def test_an_empty_variable_counts_as_unset():
    assert load_file_variables({"REDKILN_DATABASE_URL": "", "OTHER": ""}) == {"OTHER": ""}


def test_a_file_that_cannot_be_read_is_an_error():
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        load_file_variables({"REDKILN_DATABASE_URL_FILE": "/nowhere"})


def test_the_worker_reads_its_key_file_itself():
    given = {"REDKILN_WORKER_KEY_FILE": "/secrets/keys/worker.key"}
    assert load_file_variables(given) == given
