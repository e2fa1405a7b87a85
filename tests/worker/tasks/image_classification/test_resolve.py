import pytest

from redkiln.failure import FailureCode
from redkiln.tasks import parse_spec
from worker.process.failed import TrainingFailed
from worker.tasks.image_classification.resolve import resolve_spec
from worker.tasks.imagery.resolve import DataFacts
from worker.trainer.autotune.layout import choose_memory_format
from worker.trainer.devices import describe_target
from worker.trainer.precision import DeviceFacts, deny

CPU = DeviceFacts("cpu")


def resolve(spec=None, *, size=(32, 32), channels=3, num_train=9000, device=CPU):
    parsed = parse_spec({"task": "image-classification", "dataset": "d", **(spec or {})})
    return resolve_spec(parsed, data=DataFacts(size, channels, num_train), device=device)


@pytest.mark.parametrize(
    ("size", "channels", "image_size"),
    [((28, 28), 1, 28), ((32, 20), 1, 32), ((8, 8), 3, 8), ((4, 5), 1, 8), ((640, 480), 3, 224)],
)
def test_size_and_channels_follow_the_data_set(size, channels, image_size):
    options = resolve(size=size, channels=channels).model.options
    assert (options.image_size, options.channels) == (image_size, channels)


def test_values_set_by_the_user_are_kept():
    model = {"name": "amdnet", "options": {"image_size": 48, "channels": 1}}
    resolved = resolve({"model": model, "training": {"batch_size": 17, "precision": "bf16"}})
    assert resolved.model.name == "amdnet"
    assert resolved.model.options.image_size == 48
    assert resolved.model.options.channels == 1
    assert resolved.training.batch_size == 17
    assert resolved.training.precision == "bf16"


def test_the_learning_rate_warms_up_by_default():
    assert resolve().training.schedule.warmup_fraction == 0.1
    told = {"schedule": {"name": "linear", "warmup_fraction": 0.0}}
    assert resolve({"training": told}).training.schedule.warmup_fraction == 0.0


def test_a_batch_is_never_larger_than_the_training_split():
    resolved = resolve({"training": {"batch_size": 64, "accumulation": 32}}, num_train=20)
    assert (resolved.training.batch_size, resolved.training.accumulation) == (20, 20)


@pytest.mark.parametrize(
    ("device", "precision"),
    [
        (CPU, "fp32"),
        (DeviceFacts("cuda", has_bf16=True), "bf16"),
        (DeviceFacts("cuda", has_bf16=False), "fp32"),
    ],
)
def test_auto_precision_follows_the_device(device, precision):
    assert resolve(device=device).training.precision == precision


@pytest.mark.parametrize(
    ("gfx", "auto", "refused"),
    [
        ("gfx906", "fp16", {"bf16"}),
        ("gfx1010", "fp16", {"bf16"}),
        ("gfx1030", "fp16", {"bf16"}),
        ("gfx1031", "fp16", {"bf16"}),
        ("gfx1036", "fp16", {"bf16"}),
        ("gfx1100", "bf16", set()),
        ("gfx1151", "bf16", set()),
        ("gfx1201", "bf16", set()),
        ("gfx908", "bf16", set()),
        ("gfx942", "bf16", set()),
        ("gfx803", "fp32", {"fp16", "bf16"}),
        ("gfx9999", "fp32", {"bf16"}),
    ],
)
def test_precision_on_amd_follows_the_table_whatever_torch_says(gfx, auto, refused):
    device = describe_target(gfx)
    assert resolve(device=device).training.precision == auto
    for wanted in ("fp32", "fp16", "bf16"):
        spec = {"training": {"precision": wanted}}
        if wanted not in refused:
            assert resolve(spec, device=device).training.precision == wanted
            continue
        with pytest.raises(TrainingFailed, match=f"{gfx}.*set precision to auto") as caught:
            resolve(spec, device=device)
        assert caught.value.failure.code is FailureCode.BAD_INPUT


MEASURED = {"memory_format", "batch_size", "compile", "gradient_checkpointing"}


def test_only_measured_settings_are_left_at_auto():
    resolved = resolve().model_dump()
    left = {name for name, value in resolved["training"].items() if value == "auto"}
    assert left == MEASURED
    written = {"batch_size": 8, "compile": "off", "gradient_checkpointing": "off"}
    written |= {"memory_format": "contiguous"}
    named = {"model": "amdnet", "training": written}
    assert "auto" not in resolve(named).model_dump_json()


def test_a_resolved_spec_can_be_submitted_again():
    resolved = resolve()
    assert parse_spec(resolved.model_dump(mode="json")) == resolved


@pytest.mark.parametrize(
    ("device", "precision", "layout"),
    [
        (CPU, "fp32", "channels_last"),
        (DeviceFacts("cuda"), "fp32", "contiguous"),
        (DeviceFacts("cuda"), "bf16", "channels_last"),
        (DeviceFacts("cuda"), "fp16", "channels_last"),
        (describe_target("gfx1100"), "bf16", "contiguous"),
        (describe_target("gfx90a", suggests_channels_last=True), "bf16", "channels_last"),
        (describe_target("gfx90a", suggests_channels_last=True), "fp32", "contiguous"),
    ],
)
def test_the_memory_layout_follows_device_and_precision(device, precision, layout):
    assert choose_memory_format(device, precision=precision) == layout


WRONG = "bf16: wrong numbers on this GPU, error 4.2"


@pytest.mark.parametrize(
    ("device", "denied", "precision"),
    [
        (DeviceFacts("cuda", has_bf16=True), {}, "bf16"),
        (DeviceFacts("cuda", has_bf16=True), {"bf16": WRONG}, "fp32"),
        (DeviceFacts("cuda", has_bf16=True), {"fp16": WRONG}, "bf16"),
        (DeviceFacts("cuda", has_bf16=True), {"fused_attention": WRONG}, "bf16"),
        (describe_target("gfx1030"), {"fp16": WRONG}, "fp32"),
    ],
)
def test_auto_avoids_precisions_that_the_gpu_computes_wrongly(device, denied, precision):
    resolved = resolve({"training": {"precision": "auto"}}, device=deny(device, denied))
    assert resolved.training.precision == precision


def test_a_precision_that_is_wrong_on_this_gpu_is_refused_with_numbers():
    device = deny(DeviceFacts("cuda", has_bf16=True), {"bf16": WRONG})
    with pytest.raises(TrainingFailed, match=r"error 4\.2"):
        resolve({"training": {"precision": "bf16"}}, device=device)
    assert resolve({"training": {"precision": "fp16"}}, device=device).training.precision == "fp16"


@pytest.mark.parametrize(
    ("size", "num_train", "precision"),
    [(8, 1_400, "fp32"), (28, 900, "fp32"), (28, 60_000, "bf16"), (32, 900, "bf16")],
)
def test_auto_chooses_bf16_on_a_cpu_for_enough_pixels(size, num_train, precision):
    cpu = DeviceFacts("cpu", has_bf16=True)
    resolved = resolve(size=(size, size), channels=1, num_train=num_train, device=cpu)
    assert resolved.training.precision == precision


def test_a_cpu_without_bf16_instructions_gets_fp32():
    assert resolve(num_train=60_000).training.precision == "fp32"
