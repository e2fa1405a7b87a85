import pytest

from redkiln.cli.arguments.naming import choose_job
from redkiln.cli.problems import UsageError
from redkiln.views.job import JobSummary


def job(name, job_id, dataset_name="flowers"):
    return JobSummary.model_construct(name=name, id=job_id, dataset_name=dataset_name)


FIRST, SECOND = job("pics-aaaaaa", "job_1aaaaaa"), job("pics-bbbbbb", "job_2bbbbbb")
OTHER = job("pics-large", "job_3cccccc")


def test_a_default_name_is_found_without_its_last_characters_if_it_is_the_only_one():
    assert choose_job("pics", [OTHER, FIRST]) is FIRST


def test_several_jobs_of_a_default_name_are_listed():
    with pytest.raises(UsageError, match=r"2 jobs .* \(pics-bbbbbb, pics-aaaaaa\). Give the whole"):
        choose_job("pics", [SECOND, FIRST, OTHER])


def test_a_whole_name_takes_precedence():
    exact = job("pics", "job_4dddddd")
    assert choose_job("pics", [SECOND, FIRST, exact]) is exact


def test_the_beginning_of_another_name_is_only_suggested():
    with pytest.raises(UsageError, match="Did you mean pics-large"):
        choose_job("pics", [OTHER])
