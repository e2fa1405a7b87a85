import pytest

from service.datasets.models import Dataset
from service.jobs.forecast.length import dump_spec, fit_length
from service.jobs.undecided import parse_for, parse_kept

IMAGES, TEXTS, TABLES = "image-classification", "text-classification", "tabular-classification"


def dataset(task=IMAGES, *, status="ready", size=40):
    counts = {"train": {"no": size, "yes": size}, "test": {"no": 9, "yes": 9}}
    report = {"classes": ["no", "yes"], "counts": {} if status == "validating" else counts}
    return Dataset(
        id="ds_1", name="few", status=status, kind="archive", task=task, report=report, options={}
    )


@pytest.mark.parametrize(
    ("task", "fields", "epochs"),
    [
        (IMAGES, {}, 56),
        (IMAGES, {"quality": "best"}, 167),
        (IMAGES, {"quality": "fast"}, 23),
        (TEXTS, {}, 56),
        (IMAGES, {"training": {"epochs": 10}}, 10),
        (IMAGES, {"training": {"steps": 10}}, None),
        (TABLES, {}, 40),
    ],
)
def test_a_small_data_set_gets_more_epochs_unless_the_spec_sets_a_length(task, fields, epochs):
    spec = parse_for({"dataset": "few", **fields}, dataset(task))
    assert spec.training.epochs == epochs


def test_a_large_data_set_keeps_the_epochs():
    assert parse_for({"dataset": "few"}, dataset(size=1000)).training.epochs == 10


def test_few_images_get_stronger_changes_unless_the_spec_or_the_model_sets_them():
    few = parse_for({"dataset": "few"}, dataset()).training.augment
    assert (few.scale, few.crop, few.brightness) == (0.2, 0.2, 0.3)
    assert few.flip is False
    usual = {"dataset": "few", "training": {"augment": {}}}
    recommended = {"dataset": "few", "model": "cifar-fast"}
    for body, size in ((usual, 40), ({"dataset": "few"}, 1000), (recommended, 40)):
        assert parse_for(body, dataset(size=size)).training.augment.scale == 0
    assert parse_for({"dataset": "few"}, dataset(TEXTS)).training.epochs == 56


def test_a_field_of_the_changes_that_a_spec_sets_leaves_the_others_as_they_would_be():
    body = {"dataset": "few", "training": {"augment": {"rotate_degrees": 180, "crop": 0.1}}}
    few = parse_for(body, dataset()).training.augment
    assert (few.rotate_degrees, few.crop, few.scale, few.brightness) == (180, 0.1, 0.2, 0.3)
    many = parse_for(body, dataset(size=1000)).training.augment
    assert (many.rotate_degrees, many.crop, many.scale) == (180, 0.1, 0)
    recommended = parse_for({**body, "model": "cifar-fast"}, dataset()).training.augment
    assert (recommended.rotate_degrees, recommended.flip, recommended.scale) == (180, True, 0)
    whole = {"dataset": "few", "training": {"augment": many.model_dump()}}
    assert parse_for(whole, dataset()).training.augment == many


def test_a_field_of_the_changes_is_kept_while_the_data_are_validated():
    body = {"dataset": "few", "task": IMAGES, "training": {"augment": {"rotate_degrees": 180}}}
    waiting = dataset(status="validating")
    stored = dump_spec(parse_for(body, waiting), body, waiting)
    few = parse_kept(stored, dataset()).training.augment
    assert (few.rotate_degrees, few.scale) == (180, 0.2)


def test_few_images_with_several_labels_keep_the_usual_changes():
    labelled = dataset()
    labelled.report = labelled.report | {"label_counts": {"train": {"no": 40, "yes": 40}}}
    training = parse_for({"dataset": "few"}, labelled).training
    assert (training.augment.scale, training.augment.brightness) == (0, 0)
    assert training.epochs > 10


def test_a_length_that_must_wait_for_the_data_is_not_stored():
    body = {"dataset": "few", "task": IMAGES}
    waiting = dataset(status="validating")
    stored = dump_spec(parse_for(body, waiting), body, waiting)
    assert not {"epochs", "augment"} & set(stored["training"])
    own = {**body, "training": {"epochs": 7}}
    assert dump_spec(parse_for(own, waiting), own, waiting)["training"]["epochs"] == 7


def test_a_job_without_training_is_left_as_it_is():
    spec = parse_for({"task": "benchmark"}, None)
    assert fit_length(spec, {}, dataset()) is spec
