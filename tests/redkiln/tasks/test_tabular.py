import pytest

from redkiln.tasks import SpecError, parse_spec

TASKS = ["tabular-classification", "tabular-regression"]


def parsed(task, **spec):
    return parse_spec({"task": task, "dataset": "houses", **spec})


@pytest.mark.parametrize("task", TASKS)
def test_the_shortest_spec_trains_an_mlp_from_the_start(task):
    spec = parsed(task)
    assert (spec.model.source, spec.model.name, spec.model.pretrained) == ("builtin", "mlp", None)
    assert parsed(task, model="linear").model.name == "linear"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", [{"pretrained": "job:job_1"}, {"name": "job:job_1"}, "job:job_1"])
def test_another_jobs_weights_are_named_in_any_way(task, model):
    spec = parsed(task, model=model)
    assert (spec.model.name, spec.model.pretrained) == ("auto", "job:job_1")
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("model", "pointer", "words"),
    [
        ("job:mine", "/model/pretrained", "after job: stands a job's id"),
        ({"pretrained": "org/name"}, "/model", "starts from another job's weights"),
        ("auto", "/model", "name a model, mlp or linear, or the job to start from"),
        ("mpl", "/model/name", "mlp"),
    ],
)
def test_a_mistake_is_told_with_its_place(model, pointer, words):
    with pytest.raises(SpecError) as refused:
        parsed(TASKS[0], model=model)
    (problem,) = refused.value.problems
    assert problem.pointer == pointer
    assert words in problem.message
