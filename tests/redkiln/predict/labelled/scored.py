"""Scores a job's model on the test split of a data set, as `redkiln verify --data` does."""

import io
import zipfile

import numpy as np

from redkiln.predict.boxes.joined import OBJECTS, list_truth
from redkiln.predict.instances.joined import load_truth
from redkiln.predict.labelled.regions import open_answers
from redkiln.predict.labelled.score import score_data
from redkiln.predict.masks.outputs import TARGETS
from redkiln.predict.model import Model


def score_test_split(client, dataset_id, results):
    """Return the score of the model in a folder of results, whose samples are those it saved."""
    archive, samples = results / "samples.zip", results / "samples"
    client.download_test_samples(dataset_id, archive)
    with zipfile.ZipFile(archive) as file:
        file.extractall(samples)
    model = Model(results / "model.onnx", threads=1)
    _compare_with_saved(model, samples)
    return score_data(model, str(samples), stdin=io.BytesIO(), max_drop=0.005)


def _compare_with_saved(model, samples):
    """Check that pixels and answers are those that the export was scored on, in its order."""
    with np.load(model.path.with_name("parity.npz")) as file:
        arrays = dict(file)
    objects = load_truth(arrays, side=model.description.mask_square or 0)
    arrays = arrays if objects is None else {**arrays, OBJECTS: objects}
    known = {"images", OBJECTS, TARGETS} & {*arrays}
    saved = {name: arrays[name][arrays["is_test"]] for name in known}
    answers = open_answers(model, samples)
    assert len(answers.paths) == len(saved["images"]) > 0
    order = sorted(answers.paths, key=lambda path: int(path.stem))
    for place, path in enumerate(order):
        sample = model.preparation.item(path).read()
        np.testing.assert_array_equal(sample.pixels, saved["images"][place])
        truth = answers.fit(str(path), sample, model.preparation)
        if TARGETS in saved:
            np.testing.assert_array_equal(truth, saved[TARGETS][place])
            continue
        (wanted,) = list_truth(saved[OBJECTS][place : place + 1])
        np.testing.assert_array_equal(truth.labels, wanted.labels)
        np.testing.assert_allclose(truth.boxes, wanted.boxes, atol=1e-4)
        assert truth.regions == wanted.regions
