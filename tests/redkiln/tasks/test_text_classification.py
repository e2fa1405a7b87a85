import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec


def parsed(**spec):
    return parse_spec({"task": "text-classification", "dataset": "sms", **spec})


def test_the_shortest_spec_trains_a_small_network_from_scratch():
    spec = parsed()
    assert (spec.model.source, spec.model.name, spec.model.pretrained) == (
        "transformers",
        "auto",
        None,
    )
    assert (spec.training.optimizer.name, spec.training.optimizer.lr) == ("adamw", 1e-3)
    assert spec.training.epochs == 10


def test_pretrained_models_are_tuned_at_a_small_rate_by_default():
    model = {"pretrained": "org/small"}
    spec = parsed(model=model)
    assert (spec.training.optimizer.lr, spec.training.epochs) == (5e-5, 3)
    told = parsed(model=model, training={"optimizer": "sgd", "steps": 7})
    assert (told.training.optimizer.name, told.training.epochs, told.training.steps) == (
        "sgd",
        None,
        7,
    )


def test_parsing_a_parsed_spec_changes_nothing():
    spec = parsed(model={"pretrained": "org/small"}, training={"steps": 5})
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("spec", "pointer", "words"),
    [
        ({"model": {"options": {"dim": 100, "heads": 3}}}, "/model/options", "must be a multiple"),
        ({"model": {"options": {"max_lenght": 3}}}, "/model/options/max_lenght", "max_length"),
        ({"training": {"augment": {}}}, "/training/augment", "unknown field"),
        (
            {"training": {"early_stopping": {"metric": "val/f1"}}},
            "/training",
            "val/macro_f1",
        ),
        ({"model": {"source": "timm"}}, "/model/source", "transformers"),
        ({"model": "xgboost"}, "/model/name", "no model 'xgboost' for texts; choose auto"),
        ({"model": "XGBoost"}, "/model/name", "To train gradient-boosting on words"),
        ({"model": {"name": "tabm"}}, "/model/name", "task=tabular-classification"),
        ({"model": "distillbert"}, "/model/name", "did you mean 'distilbert'?"),
        ({"model": "BERT"}, "/model/name", "did you mean 'bert'?"),
        ({"training": {"freeze_backbone_epochs": 1}}, "", "starts from trained weights"),
        (
            {
                "model": {"pretrained": "org/small"},
                "training": {"epochs": 2, "freeze_backbone_epochs": 3},
            },
            "/training",
            "must not be larger than epochs",
        ),
        (
            {"model": {"config": {"longst": 3}}},
            "/model/config/longst",
            "has a field 'longst'; did you mean 'longest'?",
        ),
        (
            {"model": {"config": {"longest": 3, "n_layers": 1}}},
            "/model/config",
            "only ngrams has a field 'longest', and only transformers have 'n_layers'",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(spec, pointer, words):
    with pytest.raises(SpecError) as caught:
        parsed(**spec)
    assert caught.value.problems[0].pointer == pointer
    assert words in caught.value.problems[0].message


@pytest.mark.parametrize("model", [{"pretrained": "job:job_1"}, {"name": "job:job_1"}, "job:job_1"])
def test_another_jobs_weights_can_be_named_in_each_way_and_are_tuned_at_a_small_rate(model):
    spec = parsed(model=model)
    assert (spec.model.source, spec.model.name) == ("transformers", "auto")
    assert spec.model.pretrained == "job:job_1"
    assert (spec.training.optimizer.lr, spec.training.epochs) == (5e-5, 3)
    assert parse_spec(spec.model_dump(mode="json")) == spec


def test_a_malformed_job_id_is_refused():
    with pytest.raises(SpecError) as refused:
        parsed(model="job:mine")
    (problem,) = refused.value.problems
    assert problem.pointer == "/model/pretrained"
    assert "job: must be followed by the id of a job" in problem.message
