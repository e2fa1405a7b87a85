"""The networks of examples/onnx and examples/own_module, as a fresh clone has them."""

import runpy
import sys
from pathlib import Path

import pytest
import torch
import yaml

from redkiln.tasks import parse_spec
from tests.worker.trainer.models.own_code import pack
from worker.onnx_module.classifier import read_classifier
from worker.onnx_module.module import OnnxModule

pytestmark = pytest.mark.usefixtures("rehearsed")
EXAMPLES = Path(__file__).parents[4] / "examples"
OWN = EXAMPLES / "own_module"
RECIPES = sorted(OWN.glob("*.yaml"))


def read(path):
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_a_valid_spec(path):
    spec = read(path)
    if spec["model"].get("source") == "code":
        spec["model"]["bundle"] = "0" * 64
    assert parse_spec({"task": "image-classification", **spec}).training.epochs > 1


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if "class" in read(path)["model"]], ids=lambda path: path.stem
)
def test_an_own_class_of_the_examples_trains(make_job, start, tmp_path, monkeypatch, path):
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = read(path)
    sent = {file.stem: file.read_text() for file in OWN.glob("*.py")}
    bundle = pack(tmp_path / "sent", **sent)
    options = {"image_size": 28, "channels": 1 if spec["dataset"] == "mnist" else 3}
    model = {**spec["model"], "bundle": "0" * 64, "options": options}
    training = {**spec["training"], "epochs": 1, "batch_size": 40}
    job_dir = make_job("job", model=model, training=training, order={"bundle_path": str(bundle)})
    loop, setup = start(job_dir)
    loop.run()
    assert loop.step == setup.plan.steps


def test_the_seed_network_is_written_and_read(tmp_path, capsys):
    program = runpy.run_path(str(EXAMPLES / "onnx" / "make_seed_net.py"))
    program["main"](tmp_path / "seed_net.onnx")
    assert "seed_net.onnx" in capsys.readouterr().out
    found = read_classifier(tmp_path / "seed_net.onnx")
    module = OnnxModule(found.model, head=found.head.names)
    assert module(torch.rand(3, 1, 28, 28)).shape == (3, 10)
    assert len(module.norms) == 2
