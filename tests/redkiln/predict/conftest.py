import io

import pytest

from redkiln.predict.items import Skipped
from redkiln.predict.model import Model


@pytest.fixture
def predict():
    """Predicts with a model file; returns answers by name, and reasons for what was skipped."""

    def run(path, *arguments, stdin=b"", **options):
        batch_size = options.pop("batch_size", 2)
        model = Model(path, threads=2, **options)
        items = model.find_items(arguments, stdin=io.BytesIO(stdin))
        answers = list(model.predict_items(items, batch_size=batch_size))
        run.notes = model.preparation.notes
        run.skipped = {one.name: one.reason for one in answers if isinstance(one, Skipped)}
        return {one.name: one.answer for one in answers if not isinstance(one, Skipped)}

    return run
