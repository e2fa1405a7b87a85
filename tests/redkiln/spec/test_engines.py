"""What goes together with `resources.engine: tinygrad`."""

import pytest

from redkiln.spec.problems import SpecError
from redkiln.tasks import parse_spec

BASE = {"task": "image-classification", "dataset": "builtin:digits"}


def parse(resources, **fields):
    return parse_spec({**BASE, "resources": {"engine": "tinygrad", **resources}, **fields})


def test_a_job_of_tinygrad_takes_a_slot_without_a_gpu_of_torch():
    assert parse({}).resources.takes_cpu_slot
    assert not parse_spec(BASE).resources.takes_cpu_slot


@pytest.mark.parametrize("model", ["mlp", "linear"])
def test_tinygrad_trains_the_plain_networks_for_tables(model):
    assert parse({}, task="tabular-classification", model=model).resources.engine == "tinygrad"


@pytest.mark.parametrize(
    ("pointer", "resources", "fields"),
    [
        ("/resources/gpus", {"gpus": 2}, {}),
        ("/resources/device", {"device": "gpu"}, {}),
        ("/resources/arch", {"arch": ["gfx1100"]}, {}),
        ("/training/precision", {}, {"training": {"precision": "bf16"}}),
        ("/training/compile", {}, {"training": {"compile": "default"}}),
        ("/export/variants", {}, {"export": {"variants": ["int8-qat"]}}),
        ("/resources/engine", {}, {"task": "text-classification", "dataset": "texts"}),
        ("/model/name", {}, {"task": "tabular-regression"}),
        ("/model/name", {}, {"task": "tabular-regression", "model": "gradient-boosting"}),
        (
            "/training/folds",
            {},
            {"task": "tabular-regression", "model": "mlp", "training": {"folds": 3}},
        ),
    ],
)
def test_what_tinygrad_cannot_do_is_refused_with_its_place(pointer, resources, fields):
    with pytest.raises(SpecError) as caught:
        parse(resources, **fields)
    (problem,) = caught.value.problems
    assert (problem.pointer, problem.code) == (pointer, "engine_unsupported")
