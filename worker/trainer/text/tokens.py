"""The tokens of a data set: created once on all cores and memory-mapped by every job.

    <cache>/tokens/<key>/ids.bin         int32: the tokens of all rows, one after the other
    <cache>/tokens/<key>/offsets.npy     (N + 1,) int64: start of each row, and the end
    <cache>/tokens/<key>/tokenizer.json  the tokenizer that made them
    <cache>/tokens/<key>/facts.json      TokenFacts

The key is a digest of the data set's fingerprint and everything else that determines the tokens. A
folder appears by one rename, so two jobs may create the same one at once and one result stays.
Removing a folder does not affect a job that has it open. `tokenizers` itself divides each block of
texts among the cores.

Shapes: N rows, T tokens of all rows.
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from worker.trainer.text.tokenizer import FILE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

VERSION = 3
"""Part of the key; increase it when the same text would become other tokens."""
BLOCK_ROWS = 8192
"""Texts in memory at a time."""
BUDGET_BYTES = 10 * 2**30
"""Size of all tokens kept on a worker; the least recently used are removed first."""
IDS, OFFSETS, FACTS = "ids.bin", "offsets.npy", "facts.json"


class TokenFacts(BaseModel):
    """Facts about a data set's tokens.

    Attributes:
        num_truncated: Texts longer than the model reads.
        num_empty: Texts without any token; each is read as one unknown or padding token.
        longest: Tokens of the longest text, after truncation.
        pad_id: Token that fills a batch's shorter rows.
        vocabulary_size: Size of the tokenizer's vocabulary.
    """

    num_rows: int
    num_tokens: int
    num_truncated: int
    num_empty: int
    longest: int
    pad_id: int
    vocabulary_size: int


@dataclass(frozen=True)
class Tokens:
    """The tokens of all rows, memory-mapped copy-on-write.

    Attributes:
        ids: (T,) int32.
        offsets: (N + 1,) int64.
        tokenizer_path: The `tokenizer.json` that made them.
        end_id: Token that the network may require at a text's end, if any.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]
    facts: TokenFacts
    tokenizer_path: Path
    end_id: int | None = None

    def iter_rows(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield the tokens of some rows."""
        for row in rows:
            yield self.ids[self.offsets[row] : self.offsets[row + 1]].astype(np.int64)


def open_tokens(
    texts: Callable[[], Iterable[list[str]]],
    *,
    fingerprint: str,
    description: dict[str, Any],
    build_tokenizer: "Callable[[], Tokenizer]",
    cache_dir: Path,
    on_progress: Callable[[int], None],
) -> Tokens:
    """Map a data set's tokens, creating them first if they are not in the cache.

    Args:
        texts: Opens the texts of all rows, in blocks.
        fingerprint: Fingerprint of the data set.
        description: Everything else that determines the tokens, as JSON.
        build_tokenizer: Trains or loads the tokenizer; not called if the tokens are cached.
        cache_dir: The worker's cache.
        on_progress: Called with the number of rows done.

    Raises:
        OSError: the disk is full.
    """
    parts = [VERSION, fingerprint, description]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    folder = cache_dir / "tokens" / key
    try:
        return _load(folder)
    except FileNotFoundError:
        folder.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".tokenizing-"))
    try:
        _write(staging, texts(), build_tokenizer(), on_progress)
        _publish(staging, folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    tokens = _load(folder)
    _prune(folder.parent, keep=folder)
    return tokens


def iter_texts(path: Path, column: str) -> Iterator[list[str]]:
    """Yield the texts of a Parquet file's column in blocks."""
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=[column]):
            yield [text or "" for text in batch.column(column).to_pylist()]


def _write(
    staging: Path,
    blocks: Iterable[list[str]],
    tokenizer: "Tokenizer",
    on_progress: Callable[[int], None],
) -> None:
    padding = tokenizer.padding
    assert padding is not None, "the tokenizer has no padding"
    tokenizer.save(str(staging / FILE))
    tokenizer.no_padding()
    stand_in = _stand_in(tokenizer, pad_id=padding["pad_id"])
    lengths: list[int] = []
    num_truncated = num_empty = 0
    with (staging / IDS).open("wb") as file:
        for block in blocks:
            encodings = tokenizer.encode_batch_fast(block)
            rows = [encoding.ids or [stand_in] for encoding in encodings]
            num_truncated += sum(bool(encoding.overflowing) for encoding in encodings)
            num_empty += sum(all(encoding.special_tokens_mask) for encoding in encodings)
            lengths += map(len, rows)
            np.fromiter((token for row in rows for token in row), dtype=np.int32).tofile(file)
            on_progress(len(lengths))
        file.flush()
        os.fsync(file.fileno())
    np.save(staging / OFFSETS, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))
    facts = TokenFacts(
        num_rows=len(lengths),
        num_tokens=sum(lengths),
        num_truncated=num_truncated,
        num_empty=num_empty,
        longest=max(lengths, default=0),
        pad_id=padding["pad_id"],
        vocabulary_size=tokenizer.get_vocab_size(),
    )
    (staging / FACTS).write_text(facts.model_dump_json())


def _stand_in(tokenizer: "Tokenizer", *, pad_id: int) -> int:
    """Return the token that replaces an empty text, because a model needs at least one."""
    unknown = getattr(tokenizer.model, "unk_token", None)
    place = tokenizer.token_to_id(unknown) if unknown else None
    return pad_id if place is None else place


def _load(folder: Path) -> Tokens:
    facts = TokenFacts.model_validate_json((folder / FACTS).read_bytes())
    # Copy-on-write, because torch expects writable memory.
    ids = np.memmap(folder / IDS, dtype=np.int32, mode="c")
    offsets = np.load(folder / OFFSETS)
    os.utime(folder)
    return Tokens(ids, offsets, facts, folder / FILE)


def _publish(staging: Path, folder: Path) -> None:
    try:
        os.rename(staging, folder)  # noqa: PTH104 - unlike replace, never onto a full folder
    except OSError:
        if not (folder / FACTS).exists():
            raise


def _prune(parent: Path, *, keep: Path) -> None:
    """Remove the least recently used folders above the budget; open files stay readable."""
    folders = [path for path in parent.iterdir() if not path.name.startswith(".")]
    sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in folders}
    total = sum(sizes.values())
    for path in sorted(folders, key=lambda folder: folder.stat().st_mtime):
        if total <= BUDGET_BYTES:
            return
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]
