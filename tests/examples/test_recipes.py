"""The recipes of docs/own-module.md and the network of docs/onnx.md."""

import importlib.util
import inspect

import pytest
import torch
import yaml

from examples.onnx import make_seed_net
from tests.examples.test_examples import EXAMPLES
from worker.onnx_module.classifier import read_classifier

FOLDER = EXAMPLES / "own_module"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("name", "channels", "size"), [("amdnet", 3, 32), ("mnist-net", 1, 28)])
def test_a_recipe_with_own_code_names_a_class_that_runs(name, channels, size):
    model = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["model"]
    module = load(FOLDER / model["file"])
    build = getattr(module, model["class"])
    known = {"num_classes": 10, "channels": channels, "image_size": size}
    asked = known.keys() & inspect.signature(build).parameters.keys()
    network = build(**{key: known[key] for key in asked}, **model.get("arguments", {}))
    prepare = getattr(module, model.get("preprocess", ""), lambda images: images)
    assert network(prepare(torch.rand(2, channels, size, size))).shape == (2, 10)


def test_the_seed_net_is_a_classifier_of_digits(tmp_path):
    make_seed_net.main(tmp_path / "seed_net.onnx")
    found = read_classifier(tmp_path / "seed_net.onnx")
    assert (found.channels, found.image_size) == (1, 28)
    assert found.head is not None
    assert any("batch" in note for note in found.notes), "its batch of 1 becomes symbolic"


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("scripts/*/train.py")), ids=lambda path: path.parent.name
)
def test_an_example_script_compiles_even_where_its_packages_are_missing(path):
    compile(path.read_text(), path, "exec")
