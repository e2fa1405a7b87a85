import pytest
import torch

from worker.trainer.text.synthetic import end_texts, find_end, make_synthetic_ids

VOCABULARY = 8
END = 3


def ended(num, length, **options):
    ids = make_synthetic_ids(num, length=length, vocabulary=VOCABULARY)
    return ids, end_texts(ids, end=END, vocabulary=VOCABULARY, **options)


@pytest.mark.parametrize(("num", "length"), [(1, 1), (3, 8), (5, 13)])
def test_each_generated_text_has_its_end_token_only_at_its_end(num, length):
    before, ids = ended(num, length)
    assert (ids[:, -1] == END).all()
    assert ((ids == END).sum(dim=1) == 1).all()
    assert torch.equal(before, make_synthetic_ids(num, length=length, vocabulary=VOCABULARY))
    assert 0 <= int(ids.min()) <= int(ids.max()) < VOCABULARY


def test_the_end_of_a_padded_text_is_before_its_padding():
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[0, 4:] = 0
    _, ids = ended(2, 8, mask=mask)
    assert (ids == END).nonzero().tolist() == [[0, 3], [1, 7]]


@pytest.mark.parametrize("config", [{}, {"eos_token_id": None}, {"eos_token_id": [3, 5]}])
def test_without_an_end_token_texts_are_unchanged(config):
    ids = make_synthetic_ids(3, length=8, vocabulary=VOCABULARY)
    assert torch.equal(end_texts(ids, end=find_end(config), vocabulary=VOCABULARY), ids)
