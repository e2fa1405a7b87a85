import pytest

from redkiln.references import list_references, load_reference
from worker.hardware.benchmark.suite.workloads import list_workloads


@pytest.mark.parametrize("name", list_references())
def test_a_shipped_result_names_its_source_and_is_of_the_suite(name):
    result = load_reference(name)
    assert "20" in result.source  # the year in which it was measured or read
    workloads = {each.id: each for each in list_workloads(sizes=result.sizes)}
    for test in result.tests:
        workload = workloads[test.id]
        assert (test.batch_size, test.size) == (workload.batch_size, workload.size)
        assert test.tflops > 0


def test_an_unknown_name_has_no_result():
    assert load_reference("../views/suite") is None
