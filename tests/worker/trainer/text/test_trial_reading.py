import pytest
import torch

from redkiln.failure import FailureCode
from tests.worker.trainer.text.conftest import topic_splits
from tests.worker.trainer.text.small_model import LENGTH, VOCABULARY, build, save_model
from worker.process.failed import TrainingFailed
from worker.trainer.text.trial_reading import check_reading


@pytest.mark.parametrize(
    ("build_it", "pointer", "words"),
    [
        (lambda: build("deepseek_v2"), "/model/config", "cannot read texts (TypeError: "),
        (
            lambda: build("distilbert", max_position_embeddings=8),
            "/model/options/max_length",
            "cannot read texts of 16 tokens",
        ),
    ],
)
def test_a_network_that_cannot_read_is_refused_with_what_to_change(build_it, pointer, words):
    with pytest.raises(TrainingFailed) as caught:
        check_reading(build_it(), max_length=LENGTH, vocabulary_size=VOCABULARY)
    failure = caught.value.failure
    assert failure.code is FailureCode.BAD_INPUT
    assert failure.details["pointer"] == pointer
    assert words in failure.message


@pytest.mark.parametrize("name", ["fnet", "funnel", "xlnet"])
def test_a_network_affected_by_padding_is_refused(name):
    torch.manual_seed(0)
    with pytest.raises(TrainingFailed, match="changes with its padding") as caught:
        check_reading(build(name), max_length=LENGTH, vocabulary_size=VOCABULARY)
    assert caught.value.failure.code is FailureCode.BAD_INPUT
    assert caught.value.failure.details["pointer"] == "/model/name"


@pytest.mark.parametrize("name", ["convbert", "nystromformer"])
def test_a_network_barely_affected_by_padding_is_accepted(name):
    torch.manual_seed(0)
    check_reading(build(name), max_length=LENGTH, vocabulary_size=VOCABULARY)


def test_a_network_that_cannot_read_padded_texts_is_refused(monkeypatch):
    network = build("distilbert")
    forward = network.forward

    def assert_unpadded(ids, mask=None):
        assert mask is None
        return forward(ids)

    monkeypatch.setattr(network, "forward", assert_unpadded)
    with pytest.raises(TrainingFailed, match="a short text next to a longer one") as caught:
        check_reading(network, max_length=LENGTH, vocabulary_size=VOCABULARY)
    assert caught.value.failure.details["pointer"] == "/model/name"


@pytest.mark.parametrize(("name", "minds"), [("bart", True), ("distilbert", False)])
def test_a_text_containing_the_end_token_is_refused_if_the_network_needs_it(
    make_text_job, start, text_table, tmp_path, name, minds
):
    save_model(tmp_path / "models/org/small", name, finds_special=True)
    splits = topic_splits()
    splits["train"][5] = ("the boat [SEP] the tide", splits["train"][5][1])
    job_dir = make_text_job(
        dataset=text_table(splits=splits),
        model={"options": {"max_length": "auto"}, "pretrained": "org/small"},
        order={"models_dir": str(tmp_path / "models")},
    )
    if not minds:
        start(job_dir)
        return
    with pytest.raises(TrainingFailed) as caught:
        start(job_dir)
    failure = caught.value.failure
    assert (failure.code, failure.details["pointer"]) == (FailureCode.BAD_INPUT, "/dataset")
    assert (
        "1 of 144 texts differ; the first is 'the boat [SEP] the tide'. Remove [SEP]"
        in failure.message
    )
