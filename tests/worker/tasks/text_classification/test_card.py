import pytest

from worker.tasks.text_classification.card import write_text_texts

PREPROCESSING = {"max_length": 1024, "lowercase": True}
FACTS = {
    "vocabulary_size": 260, "num_tokens": 500, "num_rows": 10, "longest": 90, "num_truncated": 0,
}  # fmt: skip


def describe_training(**model):
    model = {"name": "ngrams", "pretrained": None, "config": {}, **model}
    texts = write_text_texts(
        model, num_classes=2, preprocessing=PREPROCESSING, facts=FACTS, example="hello"
    )
    return texts.training[0]


def test_a_linear_model_of_characters_is_described():
    line = describe_training(config={"blank_id": 5, "longest": 5})
    assert line.startswith("Linear model: each run of 1 to 5 neighbouring characters of a word has")


@pytest.mark.parametrize("model", [{"config": {"longest": 2}}, {"name": "distilbert"}])
def test_other_models_only_tell_where_their_weights_come_from(model):
    assert describe_training(**model).startswith("Initial weights: random; the tokenizer")
