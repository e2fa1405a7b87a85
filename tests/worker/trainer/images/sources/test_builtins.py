import numpy as np
import pytest

from redkiln.predict.labelled import builtins
from worker.process.failed import TrainingFailed
from worker.trainer.images.sources.builtins import open_builtin
from worker.trainer.images.sources.sources import BUILTIN_ARRAY


def test_the_digits_are_those_of_scikit_learn(cache_dir):
    images = np.load(open_builtin("digits", cache_dir=cache_dir) / BUILTIN_ARRAY)
    assert (images.shape, images.dtype) == ((1797, 8, 8), np.uint8)
    # Its first picture is a zero, with grey levels of 0 to 16.
    levels = [0, 0, 5, 13, 9, 1, 0, 0]
    assert images[0, 0].tolist() == [round(level * 255 / 16) for level in levels]


def test_the_digits_need_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setattr(builtins, "find_spec", lambda _name: None)
    with pytest.raises(TrainingFailed, match="scikit-learn is not installed"):
        open_builtin("digits", cache_dir=tmp_path)
