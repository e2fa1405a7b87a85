import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import exports_model, needs_dataset, parse_spec

BENCHMARK = {"task": "benchmark"}


def test_the_shortest_benchmark_only_names_its_task():
    spec = parse_spec(BENCHMARK)
    assert spec.dataset_reference is None
    assert spec.measure.sizes == "auto"
    assert spec.measure.precisions == ["fp32", "fp16", "bf16"]
    assert spec.resources.device == "any"


def test_filling_in_defaults_twice_changes_nothing():
    once = parse_spec(BENCHMARK).model_dump(mode="json")
    assert parse_spec(once).model_dump(mode="json") == once


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"dataset": "flowers"}, "/dataset", "unknown_field"),
        ({"export": {}}, "/export", "unknown_field"),
        ({"measure": {"tests": []}}, "/measure/tests", "too_short"),
        ({"measure": {"tests": ["matmull"]}}, "/measure/tests/0", "literal_error"),
        ({"measure": {"sizes": [8]}}, "/measure/sizes", "literal_error"),
        ({"measure": {"sizes": "large"}}, "/measure/sizes", "literal_error"),
        ({"measure": {"precisions": ["fp8"]}}, "/measure/precisions/0", "literal_error"),
        ({"measure": {"seconds": 0}}, "/measure/seconds", "greater_than_equal"),
    ],
)
def test_a_mistake_is_reported_with_its_place(fields, pointer, code):
    with pytest.raises(SpecError) as caught:
        parse_spec({**BENCHMARK, **fields})
    assert (pointer, code) in {(p.pointer, p.code) for p in caught.value.problems}


def test_a_task_says_whether_it_reads_data_and_exports_a_model():
    assert (needs_dataset("image-classification"), exports_model("image-classification")) == (
        True,
        True,
    )
    assert (needs_dataset("benchmark"), exports_model("benchmark")) == (False, False)


@pytest.mark.parametrize("task", ["of-a-newer-service", None, 7])
def test_a_job_of_an_unknown_task_is_assumed_to_export_a_model(task):
    assert exports_model(task)
