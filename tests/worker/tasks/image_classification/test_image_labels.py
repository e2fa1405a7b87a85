"""Images with several labels each."""

import numpy as np
from torch import nn

from worker.export.variants.fine_tuned import quantise
from worker.process.event_log import EventLog
from worker.tasks.image_classification.export_target import open_target


def test_images_learn_all_of_their_labels(make_job, start, labelled):
    job_dir = make_job(dataset=labelled, training={"epochs": 8, "validation_fraction": 0.2})
    loop, setup = start(job_dir)
    loop.run()
    assert set(loop.best_metrics) == {"val/loss", "val/accuracy", "val/macro_f1", "val/map"}
    assert loop.best_metrics["val/map"] > 0.9
    assert setup.preview is not None
    truths = {shown.truth for shown in setup.preview()}
    assert len(truths) == 3
    assert any(", " in truth for truth in truths)


def test_the_exported_model_returns_probabilities(make_job, start, labelled):
    job_dir = make_job(dataset=labelled)
    loop, setup = start(job_dir)
    target = open_target(
        job_dir.load_order(),
        setup.spec,
        weights=setup.model.state_dict(),
        event_log=EventLog(loop._event_log._writer, progress_seconds=1.0),
    )
    assert target.exportable.output == target.preprocessing["output"] == "probabilities"
    assert target.targets.sum(axis=1).tolist().count(2) == 26
    raw = target.samples.get(np.arange(4))
    outputs = target.exportable.predict(target.samples.feed(raw))
    assert outputs.shape == (4, 3)
    assert ((outputs > 0) & (outputs < 1)).all()
    assert "thresholds" in target.scoring.describe()
    assert "find_labels" in target.texts.usage


def test_an_int8_network_keeps_its_probabilities(make_job, start, labelled):
    _, setup = start(make_job(dataset=labelled))
    exportable = setup.make_exportable()
    # torchao takes 15 s for the batch norms of a real network.
    exportable.module.module.network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    quantised = quantise(exportable)
    outputs = quantised.module(*quantised.examples.values())
    assert (quantised.output, outputs.shape) == ("probabilities", (2, 3))
    assert ((outputs > 0) & (outputs < 1)).all()
