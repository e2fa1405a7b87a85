"""Texts with several labels each."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from redkiln.tables import LABELS, METADATA_KEY, TARGET, TableIndex
from worker.process.event_log import EventLog
from worker.tasks.text_classification.setup import open_target


@pytest.fixture
def labelled(text_table):
    """The topics, of which texts of the first one also have the label of the second one."""
    dataset = text_table("labels.parquet")
    table = pq.read_table(dataset.index_path)
    index = TableIndex.model_validate_json(table.schema.metadata[METADATA_KEY.encode()])
    index = index.model_copy(update={"format": 2, "labels_separator": ";"})
    lists = [[0, 1] if label == 0 else [label] for label in table.column(TARGET).to_pylist()]
    table = table.append_column(LABELS, pa.array(lists, pa.list_(pa.int32())))
    metadata = {METADATA_KEY: index.model_dump_json()}
    pq.write_table(table.replace_schema_metadata(metadata), dataset.index_path)
    return dataset


def test_texts_learn_all_of_their_labels(make_text_job, start, labelled):
    training = {"epochs": 6, "class_weights": "balanced", "label_smoothing": 0.05}
    job_dir = make_text_job(dataset=labelled, training=training)
    loop, setup = start(job_dir)
    loop.run()
    assert set(loop.best_metrics) == {"val/loss", "val/accuracy", "val/macro_f1", "val/map"}
    assert loop.best_metrics["val/map"] > 0.9
    assert any(", " in shown.truth for shown in setup.preview())

    target = open_target(
        job_dir.load_order(),
        setup.spec,
        weights=setup.model.state_dict(),
        event_log=EventLog(loop._event_log._writer, progress_seconds=1.0),
        reading=setup.reading,
    )
    assert target.exportable.output == target.preprocessing["output"] == "probabilities"
    raw = target.samples.get(target.rows["test"])
    found = target.scoring.score(
        target.exportable.predict(target.samples.feed(raw)), target.targets[target.rows["test"]]
    )
    assert found["map"] > 0.9
    assert target.baselines
    for baseline in target.baselines:
        fitted = baseline.fit(target.rows["train"], target.rows["test"], 5.0)
        assert fitted.outputs.shape == (len(target.rows["test"]), target.targets.shape[1])
        assert np.all((fitted.outputs >= 0) & (fitted.outputs <= 1))
