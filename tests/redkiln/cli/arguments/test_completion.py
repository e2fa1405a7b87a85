from types import SimpleNamespace

import pytest

from redkiln.cli.arguments.completion import (
    complete_data,
    complete_dataset,
    complete_job,
    complete_model,
    complete_reference,
    complete_runnable,
)


@pytest.fixture
def context(fake):
    return SimpleNamespace(find_root=lambda: SimpleNamespace(params={"url": fake.url}))


def test_a_tab_completes_names_of_jobs(fake, context):
    fake.job_names["job_1123456789abcdefghijkl"] = "flow"
    assert [name for name, _ in complete_job(context, "fl")] == ["flowers", "flow"]
    assert complete_job(context, "la") == [("last", "the newest job")]


def test_a_tab_completes_ids_after_their_prefix(context):
    assert complete_job(context, "job_0") == [("job_0123456789abcdefghijkl", "flowers, succeeded")]


def test_a_tab_completes_names_of_data_sets(fake, context, redkiln, image_folder):
    redkiln("datasets", "push", image_folder)
    assert [name for name, _ in complete_dataset(context, "fl")] == ["flowers"]


def words_of(choices):
    return [word for word, _ in choices]


def test_a_tab_completes_data_by_name_and_by_path(
    fake, context, redkiln, image_folder, tmp_path, monkeypatch
):
    redkiln("datasets", "push", image_folder)
    (tmp_path / "here" / "flats").mkdir(parents=True)
    (tmp_path / "here" / "flats" / ".hidden").touch()
    (tmp_path / "here" / "flats" / "rent.csv").touch()
    monkeypatch.chdir(tmp_path / "here")
    assert words_of(complete_data(context, "fl")) == ["flowers", "flats/"]
    assert words_of(complete_data(context, "flats/")) == ["flats/rent.csv"]
    assert "builtin:digits" in words_of(complete_data(context, "builtin:d"))
    assert complete_data(context, "nowhere/") == []


def test_a_tab_completes_registered_models_with_their_aliases(fake, context):
    fake.models = {"digits": {"production": 2}}
    assert words_of(complete_model(context, "d")) == ["digits"]
    assert words_of(complete_reference(context, "d")) == ["digits@production", "digits@latest"]
    assert words_of(complete_runnable(context, "digits@p")) == ["digits@production"]
    assert "flowers" in words_of(complete_runnable(context, "fl"))


def test_a_service_that_is_away_completes_nothing():
    params = {"url": "http://127.0.0.1:1"}
    context = SimpleNamespace(find_root=lambda: SimpleNamespace(params=params))
    assert complete_job(context, "") == []
