import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed
from worker.trainer.text.tokenizer import (
    END,
    FILE,
    PAD,
    PAD_ID,
    SPECIAL,
    START,
    load_tokenizer,
    parse_tokenizer,
    train_tokenizer,
)
from worker.trainer.text.tokens import open_tokens

TEXTS = ["the boat and the sail", "salt in the oven", "Waves, WAVES, waves!", "", "naïve café"]


def trained(texts=TEXTS, *, max_length=16, lowercase=True):
    return train_tokenizer(texts, vocabulary_size=300, max_length=max_length, lowercase=lowercase)


def opened(cache_dir, texts=TEXTS, *, tokenizer=None, description=None):
    made = []

    def build():
        made.append(1)
        return tokenizer or trained(texts)

    tokens = open_tokens(
        lambda: [texts[:2], texts[2:]],
        fingerprint="f" * 64,
        description=description or {"kind": "test"},
        build_tokenizer=build,
        cache_dir=cache_dir,
        on_progress=lambda done: None,
    )
    return tokens, bool(made)


def test_a_tokenizer_ignores_case_by_default():
    assert trained().encode("WAVES").ids == trained().encode("waves").ids
    cased = trained(lowercase=False)
    assert cased.encode("WAVES").ids != cased.encode("waves").ids


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_name_of_a_special_token_in_a_text_stays_text(tmp_path, lowercase):
    text = "".join(SPECIAL) + " and ".join(SPECIAL)
    tokenizer = trained([*TEXTS, *[text] * 50], max_length=200, lowercase=lowercase)
    tokenizer.save(str(tmp_path / FILE))
    saved = Tokenizer.from_file(str(tmp_path / FILE))
    for found in (tokenizer, saved, parse_tokenizer(saved.to_str(), max_length=200, pad_id=0)):
        encoding = found.encode(text)
        start, *inside, end = encoding.ids
        assert (start, end) == (SPECIAL.index(START), SPECIAL.index(END))
        assert min(inside) >= len(SPECIAL)
        assert encoding.special_tokens_mask == [1, *[0] * len(inside), 1]
    assert [saved.token_to_id(name) for name in SPECIAL] == [0, 1, 2, 3]
    assert saved.encode_batch(["boat", text])[0].tokens[-1] == PAD


def test_transformers_can_read_a_tokenizers_file(tmp_path):
    tokenizer = trained()
    tokenizer.save(str(tmp_path / FILE))
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), SPECIAL, strict=True))
    for special in ({}, names):
        theirs = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / FILE), **special)
        assert theirs("the boat").input_ids == tokenizer.encode("the boat").ids
        assert len(theirs) == tokenizer.get_vocab_size()
        padded = theirs(["boat", "the boat and the sail"], padding=True)
        assert padded.input_ids[0][-1] == PAD_ID


def test_a_tokenizer_depends_only_on_its_texts():
    code = (
        "from worker.trainer.text.tokenizer import train_tokenizer\n"
        "texts = [f'word{n % 97} and {n * 7919 % 1009} more' for n in range(3000)]\n"
        "print(train_tokenizer(texts, vocabulary_size=400, max_length=16, lowercase=True).to_str())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
        ).stdout
        for threads in ("1", "3")
    }
    assert len(found) == 1


def test_tokens_are_made_once_and_then_found(tmp_path):
    tokens, was_made = opened(tmp_path)
    again, was_made_again = opened(tmp_path)
    assert (was_made, was_made_again) == (True, False)
    assert np.array_equal(tokens.ids, again.ids)
    assert tokens.ids.dtype == np.int32
    other, was_made = opened(tmp_path, description={"kind": "other"})
    assert was_made
    assert other.tokenizer_path != tokens.tokenizer_path


def test_each_row_holds_the_tokens_that_the_tokenizer_file_gives(tmp_path):
    tokens, _ = opened(tmp_path)
    tokenizer = Tokenizer.from_file(str(tokens.tokenizer_path))
    for row, text in enumerate(TEXTS):
        found = tokens.ids[tokens.offsets[row] : tokens.offsets[row + 1]]
        assert found.tolist() == tokenizer.encode(text).ids
    padded = tokenizer.encode_batch(["boat", "the boat and the sail"])
    assert len({len(encoding.ids) for encoding in padded}) == 1
    assert tokens.facts.num_rows == len(TEXTS)
    assert tokens.facts.num_tokens == len(tokens.ids) == tokens.offsets[-1]
    assert tokens.facts.num_empty == 1


def test_a_long_text_is_truncated_and_counted(tmp_path):
    tokens, _ = opened(tmp_path, tokenizer=trained(max_length=4))
    assert tokens.facts.longest == 4
    assert tokens.facts.num_truncated == 3


def test_a_text_without_any_token_is_read_as_the_unknown_one(tmp_path):
    tokenizer = trained()
    bare = json.loads(tokenizer.to_str())
    bare["post_processor"] = None
    tokens, _ = opened(tmp_path, tokenizer=Tokenizer.from_str(json.dumps(bare)))
    assert tokens.ids[tokens.offsets[3] : tokens.offsets[4]].tolist() == [1]


def test_a_partly_written_folder_is_not_used(tmp_path):
    def full(*_):
        raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space"):
        open_tokens(
            lambda: [TEXTS],
            fingerprint="f" * 64,
            description={},
            build_tokenizer=trained,
            cache_dir=tmp_path,
            on_progress=full,
        )
    assert list((tmp_path / "tokens").iterdir()) == []


def test_a_pretrained_tokenizer_gets_the_models_truncation_and_padding(tmp_path):
    trained().save(str(tmp_path / FILE))
    tokenizer = load_tokenizer(tmp_path, max_length=5, pad_id=0)
    assert [len(e.ids) for e in tokenizer.encode_batch(TEXTS[:2])] == [5, 5]


def test_a_missing_or_broken_tokenizer_says_which_file_to_put_where(tmp_path):
    (tmp_path / FILE).write_text("{")
    with pytest.raises(
        TrainingFailed, match=r"put its tokenizer\.json next to config\.json"
    ) as broken:
        load_tokenizer(tmp_path, max_length=8, pad_id=0)
    assert broken.value.failure.code is FailureCode.BAD_INPUT
    (tmp_path / FILE).unlink()
    with pytest.raises(TrainingFailed, match=str(tmp_path)):
        load_tokenizer(tmp_path, max_length=8, pad_id=0)
