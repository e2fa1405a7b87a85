import builtins

import numpy as np
import onnx
import pytest
from onnx import helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from redkiln.errors import ModelError
from redkiln.predict.session import open_session
from redkiln.predict.texts import TEXTS
from worker.tasks.text_classification import companion
from worker.tasks.text_classification.companion import UNUSUAL, TextCompanion
from worker.tasks.text_classification.tokenizing import (
    PREPARED_IDS,
    PREPARED_MASK,
    build_tokenizing,
    find_obstacle,
    find_replaced,
)
from worker.trainer.text.tokenizer import fit_tokenizer, train_tokenizer

CORPUS = ["the quick brown fox isn't lazy", "Zwölf Boxkämpfer 3,50 €", "ça va très bien, naïve"] * 3
LIKE = helper.make_model(
    helper.make_graph([], "empty", [], []), opset_imports=[helper.make_opsetid("", 18)],
    ir_version=9,
)  # fmt: skip


MIXED = [*CORPUS, "หนึ่ง สอง สาม", "हिन्दी में लिखा", "この店の料理は美味しい 😀"]


def trained(*, texts=CORPUS, **options):
    settings = {"vocabulary_size": 320, "max_length": 16, "lowercase": True, **options}
    return train_tokenizer(texts, **settings)


def like_roberta():
    """A tokenizer in the form of GPT-2's and RoBERTa's: no normalizer, its own special tokens."""
    source = trained(lowercase=False)
    content = source.get_vocab()
    tokenizer = Tokenizer.from_str(source.to_str())
    tokenizer.normalizer = None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("[SEP]", content["[SEP]"]), ("[CLS]", content["[CLS]"]), add_prefix_space=False
    )
    return fit_tokenizer(tokenizer, max_length=12, pad_id=1)


@pytest.mark.parametrize(
    "tokenizer",
    [trained(), trained(lowercase=False), like_roberta(),
     trained(texts=MIXED, has_characters=True, vocabulary_size=600, max_length=64)],
    ids=["lowercase", "cased", "roberta", "characters"],
)  # fmt: skip
def test_the_graph_gives_the_tokens_of_the_tokenizer(tokenizer):
    assert find_obstacle(tokenizer) is None
    graph = build_tokenizing(tokenizer, replaced=find_replaced(tokenizer), like=LIKE)
    onnx.checker.check_model(graph, full_check=True)
    session = open_session(graph.SerializeToString(), threads=1)
    texts = [*MIXED[-6:], *UNUSUAL, "\x01", "e\u0301a", "\ufeffBOM"]
    for batch in (texts, [""], texts[:1]):
        ids, mask = session.run(
            [PREPARED_IDS, PREPARED_MASK], {TEXTS: np.array(batch, dtype=object)}
        )
        expected = tokenizer.encode_batch(batch)
        assert ids.tolist() == [one.ids for one in expected]
        assert mask.tolist() == [one.attention_mask for one in expected]


def test_the_token_that_gpt2_reserves_is_an_ordinary_text():
    graph = build_tokenizing(trained(), replaced={}, like=LIKE)
    session = open_session(graph.SerializeToString(), threads=1)
    (ids,) = session.run([PREPARED_IDS], {TEXTS: np.array(["<|endoftext|>"], dtype=object)})
    assert ids.max() < trained().get_vocab_size()


def change(tokenizer, **parts):
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    return tokenizer


@pytest.mark.parametrize(
    ("tokenizer", "reason"),
    [
        (Tokenizer(models.WordPiece({"[UNK]": 0})), "of the kind WordPiece"),
        (change(trained(), pre_tokenizer=pre_tokenizers.Whitespace()), "splits words in another"),
        (change(trained(), normalizer=normalizers.Prepend("▁")), "more than replace characters"),
        (change(trained(), post_processor=processors.ByteLevel()), "neither the start nor the end"),
        (trained(texts=["हिन्दी में लिखा"] * 9), "marks"),
    ],
)
def test_a_tokenizer_that_the_operators_cannot_do_is_refused_with_the_reason(tokenizer, reason):
    assert reason in find_obstacle(tokenizer)


def test_without_the_library_the_reason_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(companion, "LIBRARY_MODULE", "no_such_library")
    with pytest.raises(ValueError, match="onnxruntime-extensions is missing on the worker"):
        TextCompanion(None, "{}", {}, 2).write(tmp_path / "model.onnx", tmp_path / "text.onnx")


def test_opening_a_file_without_the_library_says_what_to_install(monkeypatch):
    graph = build_tokenizing(trained(), replaced={}, like=LIKE).SerializeToString()
    plainly = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "onnxruntime_extensions":
            raise ModuleNotFoundError(name=name)
        return plainly(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModelError, match="pip install onnxruntime-extensions"):
        open_session(graph)
