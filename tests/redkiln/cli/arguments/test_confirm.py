import pytest

JOB_ID = "job_0123456789abcdefghijkl"


@pytest.fixture
def at_terminal(monkeypatch):
    monkeypatch.setattr("redkiln.cli.arguments.confirm._is_at_terminal", lambda: True)


def test_a_person_is_asked_before_a_job_is_deleted(redkiln, fake, at_terminal):
    refused = redkiln("delete", "last", stdin="n\n")
    assert f"Delete flowers ({JOB_ID})?" in refused.err
    assert "Nothing was deleted." in refused.err
    assert list(fake.job_names) == [JOB_ID]
    assert redkiln("delete", "last", stdin="y\n").code == 0
    assert fake.job_names == {}


def test_yes_and_scripts_are_not_asked(redkiln, fake, at_terminal):
    assert redkiln("delete", "last", "--yes").code == 0
    fake.job_names[JOB_ID] = "flowers"
    assert redkiln("delete", "last", "--json").json == {"deleted": JOB_ID}


def test_several_jobs_are_deleted_after_one_question(redkiln, fake, at_terminal):
    fake.job_names["job_1123456789abcdefghijkl"] = "trees"
    done = redkiln("delete", "flowers", "trees", stdin="y\n")
    assert done.err.count("Delete flowers") == 1
    assert fake.job_names == {}


def test_a_person_is_asked_before_a_data_set_is_deleted(redkiln, fake, image_folder, at_terminal):
    redkiln("datasets", "push", image_folder)
    assert "Delete data set flowers" in redkiln("datasets", "delete", "flowers", stdin="n\n").err
    assert list(fake.datasets) == ["ds_1"]
