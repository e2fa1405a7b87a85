import re

import pytest
import torch

from redkiln.predict.session import open_session
from redkiln.predict.verify import verify
from redkiln.tasks.text_classification import NGRAMS, Model
from worker.export.onnx_file import write_onnx
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.export import export_job
from worker.tasks.text_classification.exported import make_text_exportable
from worker.tasks.train import run_job
from worker.trainer.text import initial_weights
from worker.trainer.text.network import build_network, describe_network
from worker.trainer.text.tokenizer import train_tokenizer
from worker.trainer.text.trial_reading import check_reading, takes_prepared_mask

DEFAULT = {"options": {"dim": 128, "layers": 2, "heads": 4}}
"""What a spec without a description of a network has."""


@pytest.fixture
def config():
    model = Model.model_validate(NGRAMS)
    return describe_network(model, max_length=32, num_classes=3, vocabulary_size=300)


@pytest.fixture
def network(config):
    return build_network(config).eval()


def test_the_order_of_neighbours_matters_and_padding_does_not(network):
    torch.nn.init.normal_(network.network.weights.weight)
    ids = torch.tensor([[2, 7, 8, 3, 0, 0], [2, 8, 7, 3, 0, 0]])
    mask = (ids != 0).long()
    one, turned = network(ids, mask)
    assert not torch.allclose(one, turned)
    torch.testing.assert_close(network(ids[:1, :4])[0], one)
    torch.testing.assert_close(network(ids, mask.bool()[:, None, None, :])[1], turned)


def test_rare_tokens_count_most(network):
    texts = [torch.tensor([2, 5, 10 + number, 3]) for number in range(20)]
    network.network.learn_rarity(texts)
    rarity = network.network.rarity
    places, _ = network.network._hash(torch.tensor([[5, 12]]), torch.ones(1, 2))
    common, rare = rarity[places[0, :2]].tolist()
    assert common == pytest.approx(1.0, abs=0.01)
    assert rare == pytest.approx(1 + torch.log(torch.tensor(21 / 2)).item())


def test_it_passes_the_checks_before_training(network):
    check_reading(network, max_length=32, vocabulary_size=300)
    assert takes_prepared_mask(network, max_length=32, vocabulary_size=300)


def test_onnx_hashes_the_largest_tokens_like_torch(network, config, tmp_path):
    torch.nn.init.normal_(network.network.weights.weight)
    exportable = make_text_exportable(network, config=config, max_length=32)
    write_onnx(exportable, tmp_path / "model.onnx", opset=20, metadata={})
    ids = torch.randint(0, 500_000, (4, 19))
    mask = torch.ones_like(ids)
    feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    (logits,) = open_session(tmp_path / "model.onnx", threads=1).run(None, feed)
    torch.testing.assert_close(torch.from_numpy(logits), network(ids, mask))


def test_short_tokens_that_occur_twice_make_its_vocabulary():
    texts = [
        "この店の料理は美味しい",
        "この店の接客は良い",
        "ราคาแพงเกินไป",
        "extraordinary",
        "ordinary",
    ]
    settings = {"vocabulary_size": 8192, "max_length": 64, "lowercase": True}
    anything = train_tokenizer(texts, **settings)
    short = train_tokenizer(texts, **settings, longest_token=6)
    longest = max(len(token) for token in short.get_vocab() if not token.startswith("["))
    assert 4 <= longest <= 6
    assert len(anything.encode(texts[0]).tokens) < 6 < len(short.encode(texts[0]).tokens)


@pytest.mark.parametrize(
    ("model", "enough", "name"),
    [
        (DEFAULT, 1000, NGRAMS),
        (DEFAULT, 50, "distilbert"),
        ({"options": {**DEFAULT["options"], "layers": 1}}, 1000, "distilbert"),
        ({"options": {**DEFAULT["options"], "max_length": 64}}, 1000, NGRAMS),
        ({"config": {"qa_dropout": 0.2}}, 1000, "distilbert"),
        ({"name": NGRAMS}, 50, NGRAMS),
    ],
)
def test_auto_is_ngrams_for_few_texts_unless_the_spec_describes_a_network(
    make_text_job, start, events, monkeypatch, model, enough, name
):
    monkeypatch.setattr(initial_weights, "ENOUGH_TEXTS", enough)
    job_dir = make_text_job(model=model, training={"epochs": 1})
    assert start(job_dir)[1].spec.model.name == name
    told = [event["data"]["text"] for event in events(job_dir, "message")]
    chosen = [text for text in told if text.startswith("model: auto is ")]
    reason = ", because 108 training texts are fewer than 1,000" if name == NGRAMS else ""
    assert chosen == ([] if "name" in model else [f"model: auto is {name}{reason}"])


def test_a_job_with_few_texts_becomes_a_verified_model(make_text_job, events):
    job_dir = make_text_job(
        model={**DEFAULT, "interface": "embedded"},
        training={"epochs": 10},
        export={"variants": ["fp16"]},
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    assert export_job(job_dir) == EXIT_DONE, events(job_dir, "failure")
    result = events(job_dir, "result")[-1]["data"]
    assert result["verified"] is True
    assert result["metrics"]["test/accuracy"] >= 0.95
    misses = {one["name"]: one["misses"] for one in result["variants"]}
    (smaller,) = misses.pop("fp16")
    assert "a model of trees or `ngrams`; remove export.variants" in smaller
    assert misses == {"fp32": [], "text": []}
    assert verify(job_dir.out_dir / "model.onnx", threads=1).misses == []
    report = (job_dir.out_dir / "report.md").read_text()
    assert re.search(r"\bngrams\b", report)
