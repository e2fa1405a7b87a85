import pytest

from redkiln.spec.image_models import Choice
from redkiln.tasks import parse_spec
from redkiln.views.job import Estimates
from service.datasets.models import Dataset
from service.jobs.forecast.estimate import (
    SETTINGS,
    Measured,
    Wanted,
    describe,
    predict,
)

UNMEASURED = (
    "time and memory: no job with this model has succeeded here yet; a running job shows the time "
    "that is left"
)
MODEL = {"name": "resnet18", "options": {"image_size": "auto"}}
RESOLVED = {"name": "resnet18", "options": {"image_size": 32}}
SETTLED = {
    "batch_size": 128,
    "precision": "bf16",
    "gpus": 1,
    "compile": "off",
    "optimizer": "adamw",
    "ema": "off",
    "accumulation": 1,
    "gradient_checkpointing": "off",
    "freeze_backbone_epochs": 0,
}
AUTO = dict.fromkeys(("batch_size", "precision", "compile", "gradient_checkpointing"), "auto")


def measured(job_id="job_1", **fields):
    facts = {
        "dataset_id": "ds_1",
        "device": "AMD Radeon RX 7900 XTX",
        "model": RESOLVED,
        "asked_model": MODEL,
        "samples": 10_000,
        "batch_size": 128,
        "training_seconds": 20.0,
        "other_seconds": 5.0,
        "peak_memory_bytes": 2**31,
        "settings": SETTLED,
    }
    return Measured(job_id=job_id, **{**facts, **fields})


def wanted(**fields):
    facts = {"dataset_id": "ds_1", "model": MODEL, "samples": 30_000, "batch_size": None}
    settings = {**SETTLED, **AUTO, "batch_size": fields.get("batch_size") or "auto"}
    return Wanted(**{**facts, "settings": settings, **fields})


def with_batch(size, job_id="job_1", **fields):
    settings = {**SETTLED, "batch_size": size, **fields.pop("settings", {})}
    return measured(job_id, batch_size=size, settings=settings, **fields)


def test_a_longer_job_takes_longer_by_its_training_time_only():
    found = predict(wanted(), [measured()])
    (item,) = found.estimates
    assert item.seconds == pytest.approx(65.0)
    assert item.memory_bytes == 2**31
    assert item.measured_by == "job_1"
    assert found.unknown == []


def test_each_device_has_its_own_estimate_from_the_newest_job():
    jobs = [measured("job_3", device="MI210"), measured("job_2"), measured("job_1")]
    found = predict(wanted(), jobs)
    assert [item.measured_by for item in found.estimates] == ["job_3", "job_2"]


def test_a_job_on_the_same_data_set_is_preferred_to_a_newer_one_on_another():
    jobs = [measured("job_2", dataset_id="ds_2"), measured("job_1")]
    found = predict(wanted(), jobs)
    assert [item.measured_by for item in found.estimates] == ["job_1"]


@pytest.mark.parametrize(
    ("asked", "job", "words"),
    [
        ({}, {"peak_memory_bytes": None}, "not measured"),
        ({"batch_size": 64}, {}, "only measured with batch size 128 (job_1), and this job has 64"),
        ({"dataset_id": "ds_2"}, {}, "batch size 128 (job_1), and this job chooses its own"),
    ],
)
def test_memory_that_was_not_measured_is_not_guessed(asked, job, words):
    found = predict(wanted(**asked), [measured(**job)])
    assert found.estimates[0].memory_bytes is None
    assert any(words in text for text in found.unknown)


def test_memory_is_used_if_the_batch_size_is_equal():
    found = predict(wanted(batch_size=128), [measured()])
    assert found.estimates[0].memory_bytes == 2**31


@pytest.mark.parametrize(
    ("asked", "sizes", "taken"),
    [
        (64, [1024, 64, 128], 64),
        (64, [1024, 256, 128], 128),
        (64, [1024, 16], 16),
        (64, [512, 1024], 512),
    ],
)
def test_the_nearest_batch_size_is_preferred(asked, sizes, taken):
    jobs = [with_batch(size, f"job_{size}") for size in sizes]
    found = predict(wanted(batch_size=asked), jobs)
    assert [item.measured_by for item in found.estimates] == [f"job_{taken}"]


def test_equal_settings_matter_more_than_a_near_batch_size_and_less_than_a_far_one():
    other = {"precision": "fp16"}
    asked = wanted(batch_size=64, settings={**SETTLED, "batch_size": 64})
    near = [with_batch(64, "job_2", settings={**other, "ema": "on"}), with_batch(128)]
    assert predict(asked, near).estimates[0].measured_by == "job_1"
    far = [with_batch(64, "job_2", settings={**other, "ema": "on"}), with_batch(1024)]
    assert predict(asked, far).estimates[0].measured_by == "job_2"


@pytest.mark.parametrize(
    ("asked", "size", "is_told"),
    [(128, 128, True), (32, 128, True), (512, 128, True), (31, 128, False), (1, 1024, False)],
)
def test_the_time_of_a_batch_far_from_the_measured_one_is_not_guessed(asked, size, is_told):
    found = predict(wanted(batch_size=asked), [with_batch(size)])
    assert (found.estimates[0].seconds is not None) is is_told
    said = f"measured with batch_size {size}, but this job asks for batch_size {asked}"
    assert any(said in text for text in found.unknown) is (asked != size)
    far = f"it was only measured with batch size {size} (job_1), too far from {asked}"
    assert any(text.endswith(far) for text in found.unknown) is not is_told


def test_a_size_that_was_not_measured_is_named():
    asked = wanted(model={"name": "resnet18", "options": {"image_size": 64}})
    (text,) = predict(asked, [measured()]).unknown
    assert "no job with this model and image size has succeeded here yet" in text


def test_newer_jobs_with_other_models_hide_no_measurement(client, submit, worker, monkeypatch):
    monkeypatch.setattr("service.jobs.forecast.estimate.LOOKED_AT", 1)
    for name in ("resnet18", "amdnet"):
        submit(model=name)
        attempt = worker.claim()
        attempt.report(
            ("resolved", {"spec": {"model": {"name": name}, "training": {"batch_size": 64}}}),
            ("progress", {"step": 100, "steps": 100, "fraction": 1.0}),
            ("result", {"metrics": {}, "verified": True, "timings": {"training": 8.0}}),
        )
        attempt.succeed()
    spec = {"dataset": "builtin:digits", "training": {"batch_size": 64, "steps": 100}}
    for name in ("resnet18", "amdnet", "auto"):
        answer = client.post("/v1/jobs?dry_run=true", json={**spec, "model": name}).json()
        assert len(answer["estimates"]) == (name != "auto"), name


def test_a_different_data_set_is_reported():
    found = predict(wanted(dataset_id="ds_2"), [measured()])
    assert found.estimates[0].seconds == pytest.approx(65.0)
    assert found.estimates[0].caveat == (
        "The time is a rough guess: it comes from job_1, which had other data"
    )
    assert not any("exact" in text for text in found.unknown)
    (named,) = predict(wanted(dataset_id="ds_2"), [measured(name="boats")]).estimates
    assert named.caveat == "The time is a rough guess: it comes from boats, which had other data"


def test_the_time_of_another_model_is_never_taken_for_what_auto_becomes():
    auto = {"name": "auto", "options": {"image_size": "auto"}}
    small = measured("job_2", asked_model=auto, model={**RESOLVED, "name": "small-cnn"})
    best = wanted(model=auto, choice=Choice("resnet18", "quality is best"))
    assert predict(best, [small]).estimates == []
    assert predict(best, [small]).unknown == [UNMEASURED]
    found = predict(best, [small, measured(asked_model=auto)]).estimates
    assert [(one.measured_by, one.caveat) for one in found] == [("job_1", None)]
    found = predict(best, [measured()]).estimates
    assert [(one.measured_by, one.caveat) for one in found] == [("job_1", None)]


def test_what_auto_becomes_is_only_compared_at_the_same_quality():
    auto = {"name": "auto", "options": {"image_size": "auto"}}
    ran = measured(asked_model=auto, quality="best")
    assert predict(wanted(model=auto, quality="balanced"), [ran]).estimates == []
    assert predict(wanted(model=auto, quality="best"), [ran]).estimates


@pytest.mark.parametrize(
    "model", [{"name": "amdnet", "options": {}}, {"name": "auto", "options": {}}, {}]
)
def test_a_model_that_never_ran_has_no_estimate(model):
    found = predict(wanted(model=model), [measured()])
    assert found == Estimates(unknown=[UNMEASURED])


def test_a_text_model_of_another_size_is_another_model():
    sizes = {"dim": 128, "layers": 2, "vocabulary_size": 8192}
    ran = measured(model={"name": "distilbert", "options": {**sizes, "max_length": 256}})
    for size, num_found in ((sizes, 1), ({**sizes, "dim": 768}, 0)):
        model = {"name": "distilbert", "options": {**size, "max_length": "auto"}}
        assert len(predict(wanted(model=model), [ran]).estimates) == num_found


def test_a_text_job_is_described_by_its_epochs_and_its_texts():
    spec = parse_spec({"task": "text-classification", "dataset": "sms", "training": {"epochs": 2}})
    dataset = Dataset(
        id="ds_1", name="sms", kind="archive", report={"counts": {"train": {"ham": 80, "spam": 20}}}
    )
    assert describe(spec, dataset).samples == 180


def test_time_without_a_number_of_samples_is_unknown():
    found = predict(wanted(samples=None), [measured()])
    assert found.estimates[0].seconds is None
    assert found.unknown[0].startswith("time: the number of training samples")


@pytest.mark.parametrize(
    ("training", "samples"),
    [
        ({"epochs": 2}, 180),
        ({"epochs": 2, "validation_fraction": 0}, 200),
        ({"steps": 7, "batch_size": 16}, 112),
        ({"steps": 7}, None),
    ],
)
def test_samples_follow_epochs_or_steps(training, samples):
    dataset = Dataset(
        id="ds_1", name="x", status="ready", kind="archive", created_at=None,
        report={"counts": {"train": {"a": 60, "b": 40}, "test": {"a": 9}}},
    )  # fmt: skip
    spec = parse_spec({"dataset": "x", "training": training}, default_task="image-classification")
    assert describe(spec, dataset).samples == samples


@pytest.mark.parametrize(("asked", "ran"), [(0, 5), (5, 0)])
def test_a_job_with_other_folds_is_not_compared(asked, ran):
    assert predict(wanted(folds=asked), [measured(folds=ran)]).estimates == []
    assert predict(wanted(folds=asked), [measured(folds=asked)]).estimates


def test_a_job_in_one_piece_is_preferred_to_a_resumed_one():
    found = predict(wanted(), [measured("job_2", is_resumed=True), measured("job_1")])
    assert [item.measured_by for item in found.estimates] == ["job_1"]


@pytest.mark.parametrize(
    ("options", "is_like"),
    [
        ({"image_size": 32}, True),  # as it was resolved
        ({"image_size": "auto"}, True),
        ({"image_size": 224}, False),  # 49 times the work
        ({"image_size": 32, "channels": 1}, False),
        ({"image_size": 32, "hidden": [512]}, False),
    ],
)
def test_inputs_of_another_size_are_another_model(options, is_like):
    model = {"name": "resnet18", "options": options}
    found = predict(wanted(model=model, dataset_id="ds_2"), [measured()])
    assert bool(found.estimates) is is_like


def test_another_configuration_is_another_model():
    asked = {"name": "bert", "config": {"num_hidden_layers": 2}, "options": {}}
    resolved = {"name": "bert", "config": {"num_hidden_layers": 2, "hidden_size": 64}}
    ran = measured(asked_model=asked, model=resolved)
    assert predict(wanted(model=asked, dataset_id="ds_2"), [ran]).estimates
    assert not predict(wanted(model={**asked, "config": {}}, dataset_id="ds_2"), [ran]).estimates


@pytest.mark.parametrize(
    ("source", "is_open"), [("builtin", True), ("onnx", False), ("code", False)]
)
def test_a_model_is_still_to_be_chosen_only_if_it_is_not_the_users_own(source, is_open):
    asked = wanted(model={"source": source, "name": "auto"}, task="image-classification")
    found = predict(asked, [])
    assert any(text.startswith("which model auto chooses") for text in found.unknown) is is_open


def test_different_model_options_are_reported():
    model = {"name": "resnet18", "options": {"image_size": 32, "dropout": 0.5}}
    found = predict(wanted(model=model, batch_size=128), [measured()])
    assert found.estimates[0].caveat.endswith("job_1, which had other options of the model")
    assert predict(wanted(model=model, samples=None), [measured()]).estimates[0].caveat is None


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("precision", "fp32"),
        ("gpus", 2),
        ("compile", "default"),
        ("optimizer", "sgd"),
        ("ema", "on"),
        ("accumulation", 4),
        ("gradient_checkpointing", "on"),
        ("freeze_backbone_epochs", 2),
    ],
)
def test_a_job_with_another_setting_is_used_only_without_a_better_one_and_reported(name, asked):
    settings = {**SETTLED, name: asked}
    other = measured("job_2", peak_memory_bytes=2**33)
    found = predict(wanted(settings=settings), [other, measured(settings=settings)])
    assert [item.measured_by for item in found.estimates] == ["job_1"]
    assert found.unknown == []

    found = predict(wanted(settings=settings), [other])
    assert [item.memory_bytes for item in found.estimates] == [2**33]
    (told,) = found.unknown
    assert f"measured with {name} {SETTLED[name]}, but this job asks for {name} {asked}" in told


def test_all_different_settings_are_reported_together():
    ran = measured(settings={**SETTLED, "gpus": 2})
    (told,) = predict(wanted(settings={**SETTLED, "precision": "fp32"}), [ran]).unknown
    assert told == (
        "time and memory on AMD Radeon RX 7900 XTX: job_1 was measured with precision bf16 and "
        "gpus 2, but this job asks for precision fp32 and gpus 1"
    )


def test_a_setting_that_was_not_recorded_is_not_reported_as_different():
    assert predict(wanted(), [measured(settings={})]).unknown == []


def test_every_compared_setting_is_found_in_a_spec():
    spec = parse_spec({"dataset": "x"}, default_task="image-classification")
    assert set(describe(spec, None).settings) == set(SETTINGS) == set(SETTLED)


@pytest.mark.parametrize(
    ("warnings", "words"),
    [
        ([], "precision bf16 and gpus 2, but this job asks for precision fp32 and gpus 1"),
        (
            [("warning", {"code": "fewer_gpus", "message": "no link"})],
            "precision bf16, but this job asks for precision fp32",
        ),
    ],
)
def test_a_dry_run_reports_the_settings_of_the_measured_job(
    client, submit, worker, warnings, words
):
    submit(model="amdnet")
    attempt = worker.claim()
    spec = parse_spec(
        {
            "dataset": "builtin:digits",
            "model": "amdnet",
            "training": {"batch_size": 64, "precision": "bf16"},
            "resources": {"gpus": 2},
        },
        default_task="image-classification",
    )
    resolved = {"spec": spec.model_dump(mode="json"), "environment": {"gpu": "MI210"}}
    attempt.report(
        *warnings,
        ("resolved", resolved),
        ("progress", {"step": 100, "steps": 100, "fraction": 1.0}),
        ("result", {"metrics": {}, "verified": True, "timings": {"training": 8.0}}),
    )
    attempt.succeed()
    asked = {
        "dataset": "builtin:digits",
        "model": "amdnet",
        "training": {"precision": "fp32", "batch_size": 64},
    }
    answer = client.post("/v1/jobs?dry_run=true", json=asked).json()
    assert [item["device"] for item in answer["estimates"]] == ["MI210"]
    (told,) = [text for text in answer["unknown"] if "was measured with" in text]
    assert words in told


def test_a_dry_run_shows_what_auto_became_and_why_or_that_a_worker_must_measure():
    auto = {"name": "auto", "options": {"image_size": "auto"}}
    why = "amdnet: resnet18 trains 9 images a second on this CPU"
    found = predict(wanted(model=auto), [measured(asked_model=auto, model_auto=why)])
    assert found.estimates[0].model_auto == why
    never = predict(wanted(model=auto, task="image-classification"), [])
    assert "resnet18 if the worker measures that it is fast enough" in never.unknown[-1]
    assert len(predict(wanted(model=auto, task="tabular-regression"), []).unknown) == 1


def test_what_auto_will_be_is_estimated_from_jobs_that_named_it():
    auto = {"name": "auto", "options": {"image_size": "auto"}}
    choice = Choice("resnet18", "quality is best")
    found = predict(wanted(model=auto, choice=choice, dataset_id="ds_2"), [measured()])
    assert found.model_auto == "resnet18: quality is best"
    assert [item.measured_by for item in found.estimates] == ["job_1"]
    never = predict(wanted(model=auto, choice=choice, task="image-classification"), [])
    assert len(never.unknown) == 1


def test_a_dry_run_of_data_that_was_never_trained_says_what_auto_will_be(client):
    answer = client.post("/v1/jobs?dry_run=true", json={"dataset": "builtin:digits"}).json()
    assert answer["model_auto"] == "mnist-cnn: the images are grey and at most 32 pixels large"
