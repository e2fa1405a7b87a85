from types import SimpleNamespace

import pytest

from redkiln.cli.arguments.completion import complete_dataset, complete_job


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


def test_a_service_that_is_away_completes_nothing():
    params = {"url": "http://127.0.0.1:1"}
    context = SimpleNamespace(find_root=lambda: SimpleNamespace(params=params))
    assert complete_job(context, "") == []
