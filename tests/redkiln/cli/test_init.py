from pathlib import Path

import pytest
import yaml

from redkiln.cli.init import list_models


def test_data_is_registered_and_its_spec_can_be_submitted(redkiln, fake, image_folder):
    done = redkiln("init", image_folder)
    assert (done.code, done.out) == (0, "wrote flowers.yaml\n")
    assert "redkiln submit flowers.yaml --watch" in done.err
    assert redkiln("submit", "flowers.yaml").code == 0
    assert fake.submitted[0][0]["dataset"] == "flowers"


def test_a_spec_for_a_pushed_data_set_can_be_printed(redkiln, fake, image_folder):
    redkiln("datasets", "push", image_folder)
    done = redkiln("init", "flowers", "-o", "-")
    assert yaml.safe_load(done.out)["dataset"] == "flowers"
    assert "not for text:\n  # augment: {flip: true, rotate_degrees: 180, scale: 0.2}\n" in done.out
    assert len(fake.uploads) == 1
    assert not Path("flowers.yaml").exists()


def test_a_file_is_only_replaced_on_request(redkiln, image_folder):
    Path("flowers.yaml").write_text("mine")
    done = redkiln("init", image_folder)
    assert (done.code, "--force" in done.err) == (2, True)
    assert Path("flowers.yaml").read_text() == "mine"
    assert redkiln("init", image_folder, "--force").code == 0


@pytest.mark.parametrize(
    ("task", "name"), [("object-detection", "rf_detr"), ("semantic-segmentation", "upernet")]
)
def test_models_of_transformers_are_named_with_our_own(task, name):
    models = list_models({"task": task})
    assert models[0] == "auto"
    assert name in models
