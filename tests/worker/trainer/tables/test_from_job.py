"""Jobs on tables that start from what a job on another table left."""

import shutil

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from redkiln.failure import FailureCode
from worker.jobdir import EXIT_DONE
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.tasks.export import export_job
from worker.tasks.train import run_job

pytestmark = pytest.mark.usefixtures("rehearsed")

CLASSES, VALUES = TASKS = ["tabular-classification", "tabular-regression"]
NUM = 60


def run_through(job_dir):
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]
    assert export_job(job_dir) == EXIT_DONE, job_dir.events_path.read_text()[-2000:]
    return job_dir.out_dir / "checkpoint.safetensors"


@pytest.fixture
def write_other(write_table):
    """Writes a table with the toy table's columns in another order, and other categories."""

    def write(name="other.parquet", *, task=CLASSES, extra=None, without=(), **options):
        rng = np.random.default_rng(5)
        codes = rng.integers(0, 3, NUM).tolist()
        columns = {
            "colour": [None, *codes[1:]],
            "weight": rng.normal(100, 3, NUM),
            "size": rng.normal(20, 2, NUM),
            **(extra or {}),
        }
        targets = rng.normal(7, 1, NUM) if task == VALUES else [0, 1] * (NUM // 2)
        return write_table(
            name,
            columns={k: v for k, v in columns.items() if k not in without},
            **{
                "targets": targets,
                "task": task,
                "num_test": 12,
                "categories": {"colour": ["blue", "pink", "red"]},
                **options,
            },
        )

    return write


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Checkpoints by their task and model; each is trained once."""
    return tmp_path_factory.mktemp("kept"), {}


@pytest.fixture
def make_source(make_table_job, kept):
    """The checkpoint of a job on the toy table."""
    folder, made = kept

    def make(*, task=CLASSES, name="mlp"):
        if (task, name) not in made:
            model = {"name": name, "options": {"dropout": 0.0}}
            job_dir = make_table_job("source", task=task, training={"epochs": 1}, model=model)
            made[task, name] = shutil.copy(run_through(job_dir), folder / f"{task}-{name}")
        return made[task, name]

    return make


@pytest.fixture
def make_successor(make_table_job):
    def make(name="job", *, initial, path, task=CLASSES, order=None, **spec):
        return make_table_job(
            name,
            task=task,
            path=path,
            order={"initial": str(initial), **(order or {})},
            **{"model": {"pretrained": "job:job_1"}, **spec},
        )

    return make


def failure_of(start, job_dir):
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    return caught.value.failure.message, caught.value.failure.details["pointer"]


def said(events, job_dir):
    return [event["data"]["text"] for event in events(job_dir, "message")]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("model", ["tabm", "mlp", "linear"])
def test_the_network_reads_another_table_as_it_read_its_own(
    make_source, make_successor, write_table, start, events, task, model
):
    path = make_source(task=task, name=model)
    # The same rows behind other columns, scales and categories give the same answers.
    rows = {"size": [50.0, 61.0, np.nan, 44.0] * 5, "weight": [2000.0, np.nan, 2003.0, 1990.0] * 5}
    own = {"colour": [0, 1, 2, None] * 5}
    swapped = {"colour": [2, 1, 0, None] * 5, "weight": rows["weight"], "size": rows["size"]}
    options = {"targets": [0, 1] * 10, "task": task, "num_test": 4}
    same = write_table(
        "same.parquet",
        columns={**rows, **own},
        **options,
        categories={"colour": ["red", "green", "blue"]},
    )
    other = write_table(
        "other.parquet", columns=swapped, **options, categories={"colour": ["blue", "green", "red"]}
    )
    found = []
    for name, table in (("a", same), ("b", other)):
        job_dir = make_successor(name, initial=path, path=table, task=task)
        _, setup = start(job_dir)
        inputs, targets = setup.batches.get(0, 0)
        found.append((*inputs, targets, setup.model.eval()(*inputs)))
        assert "training starts from job:job_1" in said(events, job_dir)
        assert setup.spec.model.name == model
        assert model == "linear" or setup.spec.model.options.hidden == [16]
        assert setup.spec.model.initial_weights.startswith("sha256 ")
    theirs = safetensors.torch.load_file(path)
    assert all(torch.equal(v, theirs[k]) for k, v in setup.model.state_dict().items())
    assert all(torch.equal(left, right) for left, right in zip(*found, strict=True))


def test_categories_unknown_to_the_other_job_count_as_missing(
    make_source, make_successor, write_other, start, events
):
    job_dir = make_successor(initial=make_source(), path=write_other())
    start(job_dir)
    warnings = {e["data"]["code"]: e["data"]["message"] for e in events(job_dir, "warning")}
    assert "colour (" in warnings["unknown_categories"]


def test_numbers_in_another_unit_give_a_warning(
    make_source, make_successor, write_other, start, events
):
    def warned(name, factor):
        size = np.random.default_rng(6).normal(50, 3, NUM) * factor
        columns = {"size": size, "weight": np.full(NUM, 2000.0)}
        job_dir = make_successor(
            name, initial=make_source(), path=write_other(f"{name}.parquet", extra=columns)
        )
        start(job_dir)
        found = {e["data"]["code"]: e["data"]["message"] for e in events(job_dir, "warning")}
        return found.get("unlike_numbers")

    assert warned("same", 1) is None
    assert "size (100% of its values; the other job's mean is " in warned("cents", 100)


def test_other_classes_get_a_new_head(make_source, make_successor, write_other, start, events):
    path = make_source()
    table = write_other(targets=[0, 1, 2] * (NUM // 3), classes=["a", "b", "c"])
    job_dir = make_successor(initial=path, path=table)
    _, setup = start(job_dir)
    assert setup.model.head.weight.shape[0] == 3
    theirs = safetensors.torch.load_file(path)
    mine = setup.model.state_dict()
    assert all(torch.equal(mine[k], v) for k, v in theirs.items() if not k.startswith("head."))
    assert "training starts from job:job_1; new weights: head.bias, head.weight" in said(
        events, job_dir
    )


@pytest.mark.parametrize("target", ["answer", "price"])
def test_the_same_target_keeps_its_scale_and_another_gets_a_new_one(
    make_source, make_successor, write_other, start, target
):
    path = make_source(task=VALUES)
    table = write_other(task=VALUES, target=target)
    _, setup = start(make_successor(initial=path, path=table, task=VALUES))
    theirs = safetensors.torch.load_file(path)
    is_head_kept = torch.equal(setup.model.head.weight, theirs["head.weight"])
    targets = setup.batches.get(0, 0)[1]
    # 7 is far below what the first job's table had, 500 and its deviation of about 130.
    assert is_head_kept is (target == "answer")
    assert (targets.mean() < -2).item() is (target == "answer")


def test_the_same_target_must_be_transformed_as_before(
    make_source, make_successor, write_other, start
):
    path, table = make_source(task=VALUES), write_other(task=VALUES, target="answer")
    training = {"target_transform": "log"}
    job_dir = make_successor(initial=path, path=table, task=VALUES, training=training)
    with pytest.raises(TrainingFailed, match=r"trained with target_transform none; set it to none"):
        start(job_dir)


@pytest.mark.parametrize("task", TASKS)
def test_it_exports_verified_without_the_other_job_and_another_job_can_start_from_it(
    make_source, make_successor, write_other, start, events, task
):
    table = write_other(task=task)
    job_dir = make_successor(initial=make_source(task=task), path=table, task=task)
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    order = job_dir.load_order().model_copy(update={"initial": None})
    job_dir.order_path.write_text(order.model_dump_json())
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")
    assert events(job_dir, "result")[-1]["data"]["verified"] is True
    assert "Initial weights: `job:job_1`" in (job_dir.out_dir / "report.md").read_text()
    path = job_dir.out_dir / "checkpoint.safetensors"
    _, setup = start(make_successor("third", initial=path, path=table, task=task))
    theirs = safetensors.torch.load_file(path)
    assert all(torch.equal(v, theirs[k]) for k, v in setup.model.state_dict().items())


@pytest.mark.parametrize("task", TASKS)
def test_a_resumed_run_is_the_uninterrupted_one_without_the_other_jobs_weights(
    make_source, make_successor, write_other, start, losses, task
):
    path, table = make_source(task=task), write_other(task=task)
    start(straight := make_successor("straight", initial=path, path=table, task=task))[0].run()
    first = make_successor("first", initial=path, path=table, task=task)
    with pytest.raises(Stopped):
        start(first, stop_after=3)[0].run()
    newest = max(item.stem for item in first.checkpoints_dir.glob("*.safetensors"))
    order = {"resume": newest, "initial": None}
    second = make_successor("first", initial=path, path=table, task=task, order=order)
    start(second)[0].run()
    assert losses(second) == losses(straight)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"without": ["size"]}, "numeric column 'size', which this table lacks or does not use"),
        ({"extra": {"age": np.arange(float(NUM))}}, "register the table again with age=ignored"),
        (
            {
                "categories": {"colour": ["red"], "size": ["s"]},
                "extra": {"size": [0] * NUM, "colour": [0] * NUM},
            },
            "register the table again with size=numeric",
        ),
    ],
)
def test_different_columns_are_refused_naming_the_first_difference(
    make_source, make_successor, write_other, start, changes, words
):
    job_dir = make_successor(initial=make_source(), path=write_other(**changes))
    message, pointer = failure_of(start, job_dir)
    assert words in message
    assert pointer == "/model/pretrained"


def test_a_linear_model_cannot_start_from_one_of_other_classes(
    make_source, make_successor, write_other, start
):
    table = write_other(targets=[0, 1, 2] * (NUM // 3), classes=["a", "b", "c"])
    path = make_source(name="linear")
    message, pointer = failure_of(start, make_successor(initial=path, path=table))
    assert "all weights of a linear model depend on the classes" in message
    assert pointer == "/model/pretrained"


def test_a_linear_model_cannot_start_from_one_of_another_target(
    make_source, make_successor, write_other, start
):
    path = make_source(task=VALUES, name="linear")
    table = write_other(task=VALUES, target="price")
    message, _ = failure_of(start, make_successor(initial=path, path=table, task=VALUES))
    assert "predicts another column" in message


@pytest.mark.parametrize(
    ("change", "words", "pointer"),
    [
        (lambda found: found.pop("reading"), "train it again", "/model/pretrained"),
        (lambda found: found.update(reading="{}"), "the description of", "/model/pretrained"),
        (lambda found: found.update(task=VALUES), "trained for tabular-r", "/model/pretrained"),
        (lambda found: None, "trained mlp, not linear", "/model/name"),
    ],
)
def test_an_unusable_checkpoint_of_another_job_is_refused(
    make_source, make_successor, write_other, start, tmp_path, change, words, pointer
):
    path = make_source()
    with safetensors.safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    change(metadata)
    changed = tmp_path / "changed.safetensors"
    safetensors.torch.save_file(safetensors.torch.load_file(path), changed, metadata=metadata)
    model = {"pretrained": "job:job_1"}
    if pointer == "/model/name":
        model["name"] = "linear"
    message, place = failure_of(
        start, make_successor(initial=changed, path=write_other(), model=model)
    )
    assert words in message
    assert place == pointer
