import pytest

from redkiln.spec.boosting import leave_unread
from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec

TASKS = ["tabular-classification", "tabular-regression"]


def parsed(task, **spec):
    return parse_spec({"task": task, "dataset": "houses", **spec})


@pytest.mark.parametrize("task", TASKS)
def test_the_shortest_spec_trains_tabm_from_scratch(task):
    spec = parsed(task)
    assert (spec.model.source, spec.model.name, spec.model.pretrained) == ("builtin", "tabm", None)
    assert parsed(task, model="linear").model.name == "linear"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", [{"pretrained": "job:job_1"}, {"name": "job:job_1"}, "job:job_1"])
def test_another_jobs_weights_can_be_named_in_each_way(task, model):
    spec = parsed(task, model=model)
    assert (spec.model.name, spec.model.pretrained) == ("auto", "job:job_1")
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize(
    ("model", "pointer", "words"),
    [
        ("job:mine", "/model/pretrained", "job: must be followed by the id of a job"),
        ({"pretrained": "org/name"}, "/model", "pretrained must name another job"),
        ("auto", "/model", "name must be tabm, mlp, linear or gradient-boosting, unless"),
        ("mpl", "/model/name", "mlp"),
        ("xgboost", "/model/name", "there is no model 'xgboost'; choose 'tabm', 'mlp'"),
        ("LightGBM", "/model/name", "did you mean 'gradient-boosting'?"),
        ("catboost", "/model/name", "did you mean 'gradient-boosting'?"),
        (
            {"name": "mlp", "options": {"learning_rate": 0.3}},
            "/model/options/learning_rate",
            "learning_rate is for `model: gradient-boosting`",
        ),
        (
            {"name": "gradient-boosting", "options": {"hidden": [8]}},
            "/model/options/hidden",
            "its options are learning_rate, leaves",
        ),
        (
            {"name": "gradient-boosting", "pretrained": "job:job_1"},
            "/model/pretrained",
            "gradient-boosting cannot start from another job's model",
        ),
        (
            {"name": "linear", "options": {"hidden": [8]}},
            "/model",
            "a linear model has no hidden layers; remove options.hidden",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(model, pointer, words):
    with pytest.raises(SpecError) as refused:
        parsed(TASKS[0], model=model)
    (problem,) = refused.value.problems
    assert problem.pointer == pointer
    assert words in problem.message


@pytest.mark.parametrize("task", TASKS)
def test_a_linear_model_may_be_submitted_again_with_its_defaults(task):
    spec = parsed(task, model="linear")
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", [{}, {"model": "tabm"}, {"model": {"options": {"members": 4}}}])
def test_tabm_brings_its_own_defaults(task, model):
    spec = parsed(task, **model)
    assert (spec.model.options.hidden, spec.model.options.dropout) == ([128, 128], 0.2)
    assert (spec.training.ema, spec.training.early_stopping.patience) == (0.98, 16)
    assert parse_spec(spec.model_dump(mode="json")) == spec


@pytest.mark.parametrize("model", ["mlp", "linear", "job:job_1"])
def test_other_models_keep_the_common_defaults(model):
    spec = parsed(TASKS[0], model=model)
    assert (spec.model.options.hidden, spec.model.options.dropout) == ([128, 64], 0.1)
    patience = 16 if model == "mlp" else None
    stops = spec.training.early_stopping
    assert (spec.training.ema, stops and stops.patience) == (None, patience)


def test_a_linear_model_learns_faster_unless_the_spec_sets_its_optimizer():
    assert parsed(TASKS[0], model="linear").training.optimizer.lr == 0.02
    slow = {"training": {"optimizer": {"lr": 1e-3}, "epochs": 5}}
    assert parsed(TASKS[0], model="linear", **slow).training.optimizer.lr == 1e-3
    assert parsed(TASKS[0], model={"name": "linear", "pretrained": "job:job_1"}) == parsed(
        TASKS[0],
        model={"name": "linear", "pretrained": "job:job_1"},
        training={"optimizer": {"lr": 2e-3}},
    )


def test_mlp_that_starts_from_another_job_is_not_stopped_early():
    model = {"name": "mlp", "pretrained": "job:job_1"}
    assert parsed(TASKS[0], model=model).training.early_stopping is None


@pytest.mark.parametrize(
    "training",
    [
        {"epochs": 5},
        {"steps": 100},
        {"validation_fraction": 0},
        {"early_stopping": None},
        {"class_weights": "balanced"},
    ],
)
def test_a_chosen_length_is_not_stopped_early(training):
    assert parsed(TASKS[0], training=training).training.early_stopping is None


def test_settings_of_the_spec_override_the_defaults_of_tabm():
    options = {"hidden": [8], "dropout": 0.0}
    training = {"ema": None, "early_stopping": {"patience": 3}}
    spec = parsed(TASKS[0], model={"options": options}, training=training)
    assert (spec.model.options.hidden, spec.model.options.dropout) == ([8], 0.0)
    assert (spec.training.ema, spec.training.early_stopping.patience) == (None, 3)


@pytest.mark.parametrize("task", TASKS)
def test_gradient_boosting_grows_iterations_on_the_cpu(task):
    spec = parsed(task, model="gradient-boosting")
    assert spec.is_estimator
    assert (spec.training.steps, spec.training.epochs) == (500, None)
    assert (spec.training.early_stopping.patience, spec.resources.device) == (20, "cpu")
    assert parse_spec(spec.model_dump(mode="json")) == spec
    shown = leave_unread(spec.model_dump(mode="json"))
    assert parse_spec(shown) == spec
    assert "steps" in shown["training"]
    assert not {"optimizer", "batch_size", "precision"} & shown["training"].keys()
    network = parsed(task).model_dump(mode="json")
    assert leave_unread(network) == network
    chosen = parsed(task, model="gradient-boosting", training={"steps": 40})
    assert (chosen.training.steps, chosen.training.early_stopping) == (40, None)


@pytest.mark.parametrize(
    ("part", "pointer", "words"),
    [
        ({"training": {"epochs": 5}}, "/training/epochs", "set training.steps"),
        ({"training": {"batch_size": 5}}, "/training/batch_size", "reads all rows"),
        ({"training": {"optimizer": "sgd"}}, "/training/optimizer", "model.options.learning_rate"),
        ({"training": {"precision": "bf16"}}, "/training/precision", "accepts only auto or fp32"),
        ({"training": {"ema": 0.9}}, "/training/ema", "no weights to average"),
        ({"training": {"label_smoothing": 0.1}}, "/training/label_smoothing", "as they are"),
        ({"resources": {"device": "gpu"}}, "/resources/device", "trains on the CPU"),
    ],
)
def test_what_trees_cannot_follow_is_refused_with_its_place(part, pointer, words):
    with pytest.raises(SpecError) as refused:
        parsed(TASKS[0], model="gradient-boosting", **part)
    (problem,) = refused.value.problems
    assert problem.pointer == pointer
    assert words in problem.message


def test_trees_have_no_huber_loss():
    with pytest.raises(SpecError, match=r"/training/loss.*only mse or mae"):
        parsed(TASKS[1], model="gradient-boosting", training={"loss": "huber"})


@pytest.mark.parametrize(
    "part", [{"model": "job:job_1"}, {"resources": {"gpus": 2}}, {"training": {"folds": 1}}]
)
def test_folds_need_one_device_and_a_fresh_start(part):
    spec = {**part, "training": {"folds": 5, **part.get("training", {})}}
    with pytest.raises(SpecError, match="/training/folds"):
        parsed(TASKS[0], **spec)


def test_trees_have_no_files_in_lower_precision():
    spec = {"dataset": "x", "model": "gradient-boosting", "export": {"variants": ["int8-static"]}}
    with pytest.raises(SpecError) as refused:
        parse_spec(spec, default_task="tabular-regression")
    (problem,) = refused.value.problems
    assert (problem.pointer, problem.code) == ("/export/variants/1", "not_for_trees")
    assert "trees have no weights to store as int8-static" in problem.message


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("tabm", {"hidden", "dropout", "embedding_size", "members", "bins"}),
        ("mlp", {"hidden", "dropout", "embedding_size"}),
        ("linear", set()),
        ("gradient-boosting", {"learning_rate", "leaves", "min_samples_leaf", "l2"}),
    ],
)
def test_a_spec_shows_only_the_options_that_its_model_reads(model, options):
    spec = parsed(TASKS[0], model=model)
    shown = spec.model_dump(mode="json")
    assert set(shown["model"]["options"]) == options
    assert parsed(**shown).model == spec.model
