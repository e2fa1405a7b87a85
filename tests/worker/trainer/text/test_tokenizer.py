"""Tokenizers that are trained on a job's texts."""

import pytest

from tests.worker.trainer.text.conftest import write_text_table
from worker.jobdir import EXIT_DONE
from worker.process.lifetime import StopSignal
from worker.tasks.train import run_job
from worker.trainer.text.tokenizer import BLANK_ID, train_tokenizer

THAI, JAPANESE, HINDI, KOREAN = "อาหารอร่อยมาก", "ありがとうございます", "हिन्दी में", "한국어 문장"
OPINIONS = {"good": ["好吃", "喜欢", "อร่อย", "ดีมาก"], "bad": ["难吃", "失望", "แย่", "เย็น"]}


def train(texts, **options):
    return train_tokenizer(
        texts * 20, vocabulary_size=400, max_length=64, **{"lowercase": True, **options}
    )


@pytest.mark.parametrize("text", [THAI, JAPANESE, HINDI, KOREAN])
def test_vowels_and_tones_of_other_scripts_are_kept(text):
    tokenizer = train([text])
    assert tokenizer.decode(tokenizer.encode(text).ids) == f"[CLS] {text}[SEP]"


def test_accents_and_case_of_latin_letters_are_removed_on_request():
    text = "Crème BRÛLÉE, Ångström"
    tokenizer = train([text])
    assert tokenizer.encode(text).ids == tokenizer.encode("creme brulee, angstrom").ids
    exact = train([text], lowercase=False)
    assert exact.encode(text).ids != exact.encode("creme brulee, angstrom").ids


@pytest.mark.parametrize("options", [{}, {"lowercase": False}, {"has_characters": True}])
def test_full_width_letters_are_those_of_ascii(options):
    tokenizer = train(["ABC 12 abc!"], **options)
    wide = "\uff21\uff22\uff23\u3000\uff11\uff12 \uff41\uff42\uff43\uff01"
    assert tokenizer.encode(wide).ids == tokenizer.encode("ABC 12 abc!").ids


def test_frequent_words_become_one_token_in_scripts_without_blanks():
    tokenizer = train(["这部电影很好看", "我喜欢电影", "电影院", THAI])
    assert len(tokenizer.encode("电影").tokens) <= 4  # two of them are the ends of the text
    assert len(tokenizer.encode(THAI).tokens) == 3


def test_each_known_character_can_be_a_token_and_others_are_bytes():
    tokenizer = train(["这部电影 naïve", THAI], has_characters=True, lowercase=False)
    ids = tokenizer.encode("电影 ï ม").ids
    assert [tokenizer.decode([one]) for one in ids[1:-1]] == [" ", "电", "影", " ", "ï", " ", "ม"]
    assert ids[1] == ids[4] == BLANK_ID == train([THAI]).token_to_id("Ġ")
    assert len(tokenizer.encode("語").ids) == len("語".encode()) + 3


def test_a_job_learns_from_texts_without_blanks(make_text_job, events, tmp_path):
    def texts(start, count):
        return [
            (f"第{start + i}次{words[i % 4]}{words[(i + 1) % 4]}了", label)
            for label, words in enumerate((OPINIONS["bad"], OPINIONS["good"]))
            for i in range(count)
        ]

    table = write_text_table(
        tmp_path / "opinions.parquet",
        {"train": texts(0, 40), "test": texts(500, 8)},
        classes=["bad", "good"],
    )
    job_dir = make_text_job(
        dataset=table, training={"epochs": 15, "optimizer": {"name": "adamw", "lr": 5e-3}}
    )
    assert run_job(job_dir, StopSignal()) == EXIT_DONE, events(job_dir, "failure")
    checkpoints = [event["data"] for event in events(job_dir, "checkpoint")]
    assert max(found["metrics"]["val/accuracy"] for found in checkpoints) >= 0.9
