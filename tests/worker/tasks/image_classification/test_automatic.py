from pathlib import Path

import pytest
import torch

from redkiln.tasks import parse_spec
from worker.jobdir import Order, OrderPaths
from worker.tasks.image_classification import automatic
from worker.tasks.image_classification.automatic import choose_model, fill_in_model

IMAGES = {"size": 32, "channels": 3, "num_train": 9000, "num_samples": 90_000}


def choose(rate, *, quality="balanced", **facts):
    def measure():
        assert rate is not None, "nothing should be measured"
        return rate

    return choose_model(quality, place="this GPU", measure=measure, **{**IMAGES, **facts})


@pytest.mark.parametrize(
    ("quality", "facts", "name"),
    [
        ("best", {}, "resnet18"),
        ("fast", {}, "small-cnn"),
        ("balanced", {"size": 28, "channels": 1}, "mnist-cnn"),
        ("balanced", {"num_train": 200, "num_samples": 2000}, "small-cnn"),
    ],
)
def test_quality_and_data_may_decide_without_a_measurement(quality, facts, name):
    assert choose(None, quality=quality, **facts).name == name


@pytest.mark.parametrize(
    ("rate", "facts", "name"),
    [
        (100, {}, "small-cnn"),
        (160, {}, "resnet18"),
        (400, {"num_samples": 10**7}, "small-cnn"),
        (500, {"num_samples": 10**7}, "resnet18"),
    ],
)
def test_the_measured_speed_decides_on_every_kind_of_device(rate, facts, name):
    assert choose(rate, **facts).name == name


def test_the_reason_says_what_was_measured_and_how_to_choose_otherwise():
    assert choose(100).why == (
        "resnet18 trains 100 images a second on this GPU, which takes about 15 min, more than "
        "10 min; `quality: best` trains it nevertheless"
    )


def test_a_network_that_does_not_fit_into_memory_is_not_chosen():
    choice = choose_model("balanced", place="this GPU", measure=lambda: None, **IMAGES)
    assert (choice.name, choice.why) == ("small-cnn", "resnet18 cannot be measured on this GPU")


class Said:
    def __init__(self):
        self.texts = []

    def message(self, text):
        self.texts.append(text)

    def enter(self, phase):
        pass


def fill_in(tmp_path: Path, model="auto", *, asked="auto"):
    options = {"image_size": 8, "channels": 3}
    fields = {"task": "image-classification", "dataset": "d"}
    training = {"precision": "fp32"}
    spec = parse_spec(
        {**fields, "model": {"name": model, "options": options}, "training": training}
    )
    order = Order.model_construct(
        spec={**fields, "model": asked},
        paths=OrderPaths(cache_dir=tmp_path),
        patches=[],
        num_ranks=1,
    )
    said = Said()
    facts = fill_in_model(spec, order, num_train=9000, device=torch.device("cpu"), event_log=said)
    return spec.model.name, facts, said.texts


def test_a_step_is_measured_once_and_the_reason_survives_a_resumed_run(tmp_path, monkeypatch):
    monkeypatch.setattr(automatic, "LARGE_MODEL", "mnist-cnn")
    name, facts, texts = fill_in(tmp_path)
    assert texts[0].startswith("timing a training step of mnist-cnn: if it is fast enough here, ")
    assert facts["model_auto"] in texts[1]
    assert "images a second on this CPU" in facts["model_auto"]
    assert fill_in(tmp_path) == (name, facts, texts[1:])
    assert fill_in(tmp_path, name, asked="auto") == (name, facts, [])


def test_a_resumed_run_keeps_its_network_on_another_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(automatic, "_find_rate", lambda *_: 1e6)
    name, facts, _ = fill_in(tmp_path, "amdnet", asked="auto")
    assert (name, facts) == ("amdnet", {"model_auto": "amdnet: chosen when the training began"})


def test_a_network_that_the_user_names_has_no_reason(tmp_path):
    assert fill_in(tmp_path, "amdnet", asked="amdnet") == ("amdnet", {}, [])
