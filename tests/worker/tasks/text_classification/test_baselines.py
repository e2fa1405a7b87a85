import numpy as np
import pytest

from tests.worker.trainer.text.conftest import write_text_table
from worker.export.baselines.baseline import Skipped
from worker.tasks.text_classification import baselines
from worker.trainer.text.table import open_text_table


def fit(tmp_path, splits):
    dataset = write_text_table(tmp_path / "texts.parquet", splits, classes=["bad", "good"])
    table = open_text_table(dataset, validation_fraction=0.1)
    offered = baselines.list_baselines(table)
    assert [one.name.partition(" ")[0] for one in offered] == ["linear", "gradient-boosted"]
    found = [one.fit(table.rows["train"], table.rows["test"], 60.0).outputs for one in offered]
    return found, table.labels[table.rows["test"]]


def splits_of(sentences):
    return {
        split: [(text.format(number), label) for number in range(num) for text, label in sentences]
        for split, num in (("train", 60), ("test", 5))
    }


@pytest.mark.parametrize(
    "sentences",
    [
        [("this film was awful {}", 0), ("this film was lovely {}", 1)],
        [("这部电影非常糟糕我再也不想看了{}", 0), ("这部电影非常精彩我还想再看一遍{}", 1)],
    ],
)
def test_parts_of_words_decide_or_characters_in_scripts_without_spaces(tmp_path, sentences):
    found, labels = fit(tmp_path, splits_of(sentences))
    for outputs in found:
        assert outputs.argmax(axis=1).tolist() == labels.tolist()
        assert np.exp(outputs).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_short_texts_in_a_script_without_spaces_are_read_by_their_characters(tmp_path):
    names = [chr(number) for number in range(0x5000, 0x5041)]
    reviews = [(f"{name}{verdict}。{name}的", label)
               for name in names for verdict, label in (("很差劲", 0), ("真不错", 1))]  # fmt: skip
    found, labels = fit(tmp_path, {"train": reviews[:120], "test": reviews[120:]})
    for outputs in found:  # no word of the test texts, such as "X很差劲", is in training
        assert outputs.argmax(axis=1).tolist() == labels.tolist()


@pytest.mark.parametrize(("most", "is_known"), [(2_000_000, True), (100, False)])
def test_parts_of_words_are_counted_unless_texts_are_long(tmp_path, monkeypatch, most, is_known):
    monkeypatch.setattr(baselines, "MOST_BY_PARTS", most)
    wordings = [("the parcel {} got lost", 0), ("the invoice {} is wrong", 1)]
    mistyped = {"train": splits_of(wordings)["train"], "test": [("parcell", 0), ("invoicee", 1)]}
    found, labels = fit(tmp_path, mistyped)
    assert (found[0].argmax(axis=1).tolist() == labels.tolist()) is is_known


def test_empty_texts_and_large_test_splits_are_skipped(tmp_path, monkeypatch):
    with pytest.raises(Skipped, match="empty vocabulary"):
        fit(tmp_path, splits_of([("", 0), (" ", 1)]))
    monkeypatch.setattr(baselines, "MOST_TESTED", 9)
    with pytest.raises(Skipped, match="10 test texts"):
        fit(tmp_path, splits_of([("bad {}", 0), ("good {}", 1)]))
