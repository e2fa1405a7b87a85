import re
from itertools import pairwise

import pytest
import torch
from tokenizers import Tokenizer

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
from worker.trainer.text.network import build_network, describe_network, describe_successor
from worker.trainer.text.ngrams import LEAST_RARITY
from worker.trainer.text.tokenizer import BLANK_ID
from worker.trainer.text.trial_reading import check_reading, takes_prepared_mask

DEFAULT = {"options": {"dim": 128, "layers": 2, "heads": 4}}
"""What a spec without a description of a network has."""
FEW = "108 training texts are fewer than 1,000"
DESCRIBED = "the spec describes a network"
OF_NGRAMS = "only it has the field model.config.longest"


@pytest.fixture
def config():
    model = Model.model_validate(NGRAMS)
    return describe_network(model, max_length=32, num_classes=3, vocabulary_size=300)


@pytest.fixture
def network(config):
    return build_network(config).eval()


@pytest.fixture
def of_characters(config):
    """Whole configuration of a network whose tokens are characters."""
    return {**config, "blank_id": BLANK_ID, "longest": 3}


def draw(config):
    """Build a network whose weights matter."""
    network = build_network(config).eval()
    torch.nn.init.normal_(network.network.weights.weight)
    return network


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
    assert common == pytest.approx(LEAST_RARITY, abs=0.01)
    assert rare == pytest.approx(LEAST_RARITY + torch.log(torch.tensor(21 / 2)).item())


def test_characters_make_ngrams_within_words_only(of_characters):
    network = draw(of_characters)
    ids = torch.tensor([[2, BLANK_ID, 70, 71, BLANK_ID, 80, 3]])
    _, flags = network.network._hash(ids, torch.ones_like(ids))
    pairs, triples = flags[0, 7:14].tolist(), flags[0, 14:].tolist()
    assert pairs == [1, 1, 1, 1, 1, 1, 0]
    assert triples == [0, 1, 1, 0, 1, 0, 0]  # " ab", "ab ", " c " and none across a blank
    turned = torch.tensor([[2, BLANK_ID, 80, BLANK_ID, 70, 71, 3]])
    torch.testing.assert_close(network(turned), network(ids))


def test_padding_does_not_matter_for_characters(of_characters):
    network = draw(of_characters)
    ids = torch.tensor([[2, BLANK_ID, 70, 71, 3, 0, 0]])
    mask = (ids != 0).long()
    torch.testing.assert_close(network(ids[:, :5]), network(ids, mask))


@pytest.mark.parametrize("blank_id", [None, BLANK_ID])
def test_it_passes_the_checks_before_training(config, blank_id):
    network = build_network({**config, "blank_id": blank_id})
    check_reading(network, max_length=32, vocabulary_size=300)
    assert takes_prepared_mask(network, max_length=32, vocabulary_size=300)


@pytest.mark.parametrize("blank_id", [None, BLANK_ID])
def test_onnx_hashes_the_largest_tokens_like_torch(config, blank_id, tmp_path):
    network = draw({**config, "blank_id": blank_id})
    exportable = make_text_exportable(network, config=config, max_length=32)
    write_onnx(exportable, tmp_path / "model.onnx", opset=20, metadata={})
    ids = torch.randint(0, 500_000, (4, 19))
    ids[:, 7] = BLANK_ID
    mask = torch.ones_like(ids)
    feed = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
    (logits,) = open_session(tmp_path / "model.onnx", threads=1).run(None, feed)
    torch.testing.assert_close(torch.from_numpy(logits), network(ids, mask))


def test_a_network_that_was_trained_before_characters_computes_what_it_did(config):
    config = {**config, "longest": 2, "buckets": 512}
    del config["blank_id"]
    assert describe_successor(config, {}, num_classes=4)["blank_id"] is None
    network = draw(config).network
    torch.nn.init.uniform_(network.rarity, 1.0, 5.0)
    ids = [2, BLANK_ID, 7, 8, BLANK_ID, 7, 3]
    pairs = [((a + 1) * 1_000_003 + b + 1) % (2**31 - 1) for a, b in pairwise(ids)]
    hashes = [one * 2_654_435_761 % 2**32 % 512 for one in [*(token + 1 for token in ids), *pairs]]
    shares = network.rarity[hashes]
    expected = 30 * (shares / shares.square().sum().sqrt()) @ network.weights.weight[hashes]
    torch.testing.assert_close(network(torch.tensor([ids])).logits[0], expected)


def test_a_spec_that_was_resolved_before_characters_keeps_its_pairs_of_bytes(make_text_job, start):
    found = describe_network(
        Model.model_validate({"name": NGRAMS, "config": {"longest": 2}}),
        max_length=32,
        num_classes=3,
        vocabulary_size=300,
    )
    del found["blank_id"]
    _, setup = start(make_text_job(model={"name": NGRAMS, "config": found}))
    model = setup.spec.model
    assert (model.config["blank_id"], model.config["longest"]) == (None, 2)
    assert model.options.max_length == 256
    tokens = Tokenizer.from_str(setup.reading).encode("the waves").tokens
    assert "Ġthe" in tokens


@pytest.mark.parametrize(
    ("sentence", "many", "longest"),
    [("a lovely film {}", 1000, 5), ("这部电影非常精彩{}", 1000, 2), ("这部电影非常精彩{}", 40, 3)],
)
def test_script_and_number_of_texts_decide_how_long_ngrams_are(
    make_text_job, text_table, start, monkeypatch, sentence, many, longest
):
    monkeypatch.setattr(initial_weights, "MANY_TEXTS", many)
    rows = [(sentence.format(number), number % 3) for number in range(60)]
    dataset = text_table(splits={"train": rows[:50], "test": rows[50:]})
    job_dir = make_text_job(model={"name": NGRAMS}, dataset=dataset)
    model = start(job_dir)[1].spec.model
    assert (model.config["blank_id"], model.config["longest"]) == (BLANK_ID, longest)
    assert model.options.max_length == 1024
    given = make_text_job(
        "given", model={"name": NGRAMS, "config": {"longest": 4}}, dataset=dataset
    )
    assert start(given)[1].spec.model.config["longest"] == 4


@pytest.mark.parametrize(
    ("model", "enough", "name", "reason"),
    [
        (DEFAULT, 1000, NGRAMS, FEW),
        (DEFAULT, 50, "distilbert", "there are 50 training texts or more"),
        ({"options": {**DEFAULT["options"], "layers": 1}}, 1000, "distilbert", DESCRIBED),
        ({"options": {**DEFAULT["options"], "max_length": 64}}, 1000, NGRAMS, FEW),
        ({"config": {"qa_dropout": 0.2}}, 1000, "distilbert", DESCRIBED),
        ({"config": {"longest": 3}}, 1000, NGRAMS, OF_NGRAMS),
        ({"config": {"longest": 3}}, 50, NGRAMS, OF_NGRAMS),
        ({"name": NGRAMS}, 50, NGRAMS, None),
    ],
)
def test_auto_is_ngrams_for_few_texts_unless_the_spec_describes_a_network(
    make_text_job, start, events, monkeypatch, model, enough, name, reason
):
    monkeypatch.setattr(initial_weights, "ENOUGH_TEXTS", enough)
    job_dir = make_text_job(model=model, training={"epochs": 1})
    found = start(job_dir)[1].spec.model
    assert found.name == name
    assert found.config.items() >= model.get("config", {}).items()
    told = [event["data"]["text"] for event in events(job_dir, "message")]
    chosen = [text for text in told if text.startswith("model: auto is ")]
    assert chosen == ([f"model: auto is {name}, because {reason}"] if reason else [])


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
