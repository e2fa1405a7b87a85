import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec
from worker.tasks.imagery.resolve import DataFacts
from worker.tasks.object_detection.resolve import resolve_spec
from worker.trainer.precision import DeviceFacts

CPU, GPU = DeviceFacts("cpu"), DeviceFacts("cuda")


def parse(**spec):
    return parse_spec({"task": "object-detection", "dataset": "d", **spec})


def resolve(*, size=(128, 96), channels=3, num_train=400, device=CPU, **spec):
    return resolve_spec(parse(**spec), data=DataFacts(size, channels, num_train), device=device)


@pytest.mark.parametrize(
    ("size", "device", "image_size"),
    [
        ((128, 96), CPU, 128),
        ((100, 130), CPU, 160),
        ((10, 12), CPU, 64),
        ((1920, 1080), CPU, 320),
        ((1920, 1080), GPU, 640),
        ((10_000, 10_000), GPU, 640),
    ],
)
def test_the_side_is_a_multiple_of_the_coarsest_stride(size, device, image_size):
    assert resolve(size=size, device=device).model.options.image_size == image_size


@pytest.mark.parametrize(
    ("device", "quality", "name"),
    [
        (CPU, "fast", "dense-nano"),
        (CPU, "balanced", "dense-nano"),
        (CPU, "best", "dense-small"),
        (GPU, "fast", "dense-nano"),
        (GPU, "balanced", "dense-small"),
        (GPU, "best", "dense-medium"),
    ],
)
def test_device_and_quality_decide_the_size_of_the_detector(device, quality, name):
    assert resolve(device=device, quality=quality).model.name == name


def test_values_set_by_the_user_are_kept():
    model = {"name": "dense-medium", "options": {"image_size": 96, "channels": 1}}
    resolved = resolve(model=model, training={"batch_size": 17, "precision": "bf16"})
    assert resolved.model.name == "dense-medium"
    assert (resolved.model.options.image_size, resolved.model.options.channels) == (96, 1)
    assert (resolved.training.batch_size, resolved.training.precision) == (17, "bf16")


def test_a_batch_is_never_larger_than_the_training_split():
    resolved = resolve(training={"batch_size": 64, "accumulation": 32}, num_train=20)
    assert (resolved.training.batch_size, resolved.training.accumulation) == (20, 20)


@pytest.mark.parametrize(
    ("spec", "pointer", "words"),
    [
        ({"model": {"options": {"image_size": 100}}}, "/model/options/image_size", "32"),
        ({"model": {"options": {"image_size": 1312}}}, "/model/options/image_size", "1280"),
        ({"model": {"options": {"resize": "crop"}}}, "/model/options/resize", "pad"),
        ({"model": "dense-nan"}, "/model/name", "dense-nano"),
        ({"model": {"name": "dense-nano", "pretrained": "org/name"}}, "/model", "job:<id>"),
        ({"model": {"name": "d_fine", "source": "builtin"}}, "/model", "remove source"),
        ({"model": {"config": {"num_queries": 9}}}, "/model", "config only"),
        ({"model": "transformers:detr"}, "/model/name", "rt_detr_v2"),
        (
            {"model": "rf_detr", "training": {"optimizer": "muon"}},
            "/training/backbone_lr",
            "adamw",
        ),
        (
            {"model": "rf_detr", "training": {"compile": "default"}},
            "/training/compile",
            "off",
        ),
        ({"training": {"early_stopping": {"metric": "val/accuracy"}}}, "/training", "val/map50"),
        ({"training": {"augment": {"rotate_degrees": 5}}}, "/training/augment", "rotate"),
    ],
)
def test_what_a_detector_cannot_do_is_refused_with_its_place(spec, pointer, words):
    with pytest.raises(SpecError) as refused:
        parse(**spec)
    (problem,) = refused.value.problems
    assert problem.pointer.startswith(pointer)
    assert words in problem.message


def test_a_job_is_short_for_its_weights():
    model = parse(model="job:job_1").model
    assert (model.name, model.pretrained) == ("auto", "job:job_1")


@pytest.mark.parametrize(("quality", "epochs"), [("fast", 20), ("balanced", 50), ("best", 120)])
def test_quality_decides_the_length(quality, epochs):
    assert parse(quality=quality).training.epochs == epochs
    assert parse(quality=quality, training={"epochs": 3}).training.epochs == 3
