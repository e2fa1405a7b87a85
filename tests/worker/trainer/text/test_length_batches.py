import numpy as np
import pytest
import torch

from worker.trainer.text.batches import LengthBatches, ResidentTexts, arrange
from worker.trainer.text.tokens import TokenFacts, Tokens

CPU = torch.device("cpu")
PAD = 0


def make_tokens(lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    ids = np.concatenate([np.full(length, row + 1) for row, length in enumerate(lengths)])
    facts = TokenFacts(
        num_rows=len(lengths),
        num_tokens=int(offsets[-1]),
        num_truncated=0,
        num_empty=0,
        longest=max(lengths),
        pad_id=PAD,
        vocabulary_size=len(lengths) + 1,
    )
    return Tokens(ids.astype(np.int32), offsets, facts, tokenizer_path=None)


def make_texts(lengths, *, multiple=1, prepared=False):
    rows = np.arange(len(lengths))
    return ResidentTexts(
        make_tokens(lengths),
        rows % 3,
        rows={"train": rows, "validation": rows[:0], "test": rows[:5]},
        device=CPU,
        multiple=multiple,
        is_mask_prepared=prepared,
    )


@pytest.fixture
def lengths():
    return np.random.default_rng(0).integers(3, 60, size=1203).tolist()


@pytest.mark.parametrize("multiple", [1, 8])
def test_a_batch_contains_its_rows_tokens_and_masks_the_padding(lengths, multiple):
    texts = make_texts(lengths, multiple=multiple)
    batches = LengthBatches(texts, batch_size=16, seed=0)
    for place in range(batches.num_batches):
        inputs, labels = batches.get(0, place)
        ids = inputs[0]
        rows = ids[:, 0] - 1
        assert torch.equal(labels, rows % 3)
        taken = (ids == ids[:, :1]).sum(dim=1)
        assert taken.tolist() == [lengths[row] for row in rows]
        assert ids.shape[1] == -(-int(taken.max()) // multiple) * multiple
        if len(inputs) == 1:
            assert int((ids == PAD).sum()) == 0
        else:
            assert torch.equal(inputs[1], (ids != PAD).long())


def test_a_mask_can_be_prepared_for_attention(lengths):
    (ids, mask), _ = LengthBatches(make_texts(lengths, prepared=True), batch_size=16, seed=0).get(
        0, 0
    )
    assert mask.dtype is torch.bool
    assert torch.equal(mask[:, 0, 0], ids != PAD)


def test_texts_of_one_length_need_no_mask():
    inputs, _ = LengthBatches(make_texts([8] * 20, multiple=8), batch_size=4, seed=0).get(0, 0)
    assert [part.shape for part in inputs] == [(4, 8)]


def test_an_epoch_has_each_text_at_most_once_and_wastes_little(lengths):
    texts = make_texts(lengths)
    batches = LengthBatches(texts, batch_size=16, seed=0)
    parts = [batches.get(0, place)[0][0] for place in range(batches.num_batches)]
    rows = torch.cat([ids[:, 0] for ids in parts]).tolist()
    assert len(rows) == len(set(rows)) == 1203 // 16 * 16
    cells = sum(ids.numel() for ids in parts)
    num_tokens = batches.count_tokens((0, place) for place in range(batches.num_batches))
    assert num_tokens == sum(int((ids != PAD).sum()) for ids in parts)
    assert num_tokens / cells > 0.95


def test_the_longest_batch_comes_first(lengths):
    batches = LengthBatches(make_texts(lengths), batch_size=16, seed=0)
    widths = [batches.get(3, place)[0][0].shape[1] for place in range(batches.num_batches)]
    assert widths[0] == max(widths)
    assert widths != sorted(widths)
    assert widths != sorted(widths, reverse=True)


def test_a_batch_depends_only_on_seed_epoch_and_place(lengths):
    one, two = (LengthBatches(make_texts(lengths), batch_size=16, seed=7) for _ in range(2))
    one.get(0, 0)
    for epoch, place in ((4, 11), (2, 0)):
        for mine, theirs in zip(one.get(epoch, place)[0], two.get(epoch, place)[0], strict=True):
            assert torch.equal(mine, theirs)
    other = LengthBatches(make_texts(lengths), batch_size=16, seed=8)
    assert not torch.equal(one.get(0, 5)[1], other.get(0, 5)[1])
    assert not torch.equal(one.get(0, 5)[1], one.get(1, 5)[1])


def test_ranks_get_the_parts_of_the_whole_batch(lengths):
    class Second:
        def share(self, start, stop):
            return start + (stop - start) // 2, stop

    whole, shared = (LengthBatches(make_texts(lengths), batch_size=16, seed=0) for _ in range(2))
    shared.ranks = Second()
    (ids, *_), labels = whole.get(0, 3)
    (mine, *_), my_labels = shared.get(0, 3)
    assert torch.equal(mine, ids[8:])
    assert torch.equal(my_labels, labels[8:])


def test_evaluation_sees_every_text_once():
    texts = make_texts([5, 9, 3, 7, 4, 4])
    batches = list(texts.batches("test", batch_size=2))
    assert [len(labels) for _, labels in batches] == [2, 2, 1]
    seen = [row for (ids, *_), _ in batches for row in (ids[:, 0] - 1).tolist()]
    assert sorted(seen) == [0, 1, 2, 3, 4]


def test_arranging_leaves_out_an_incomplete_batch(lengths):
    order = arrange(
        np.arange(10),
        np.array(lengths),
        batch_size=4,
        generator=torch.Generator().manual_seed(0),
    )
    assert order.shape == (2, 4)
