"""The file of a text model that has its tokenizer inside: `model-text.onnx`.

Shapes: N texts, B batch.
"""

import importlib.metadata
import importlib.util
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from redkiln.predict.session import LIBRARY, LIBRARY_MODULE, open_session
from redkiln.predict.texts import IDS, MASK, TEXTS
from worker.export.embedding.merge import embed
from worker.export.target import Arrays
from worker.tasks.text_classification.tokenizing import (
    PREPARED_IDS,
    PREPARED_MASK,
    build_tokenizing,
    find_obstacle,
    find_replaced,
)
from worker.trainer.text.table import TextTable

BATCH = 64
OPSET = 18
_OWN = {"interface": "embedded", "inputs": [TEXTS], "dtype": "string", "layout": "(batch,)"}
UNUSUAL = (
    "", "   ", "a", "Ünïcödé ΣΊΣΥΦΟΣ Привет İ", "日本語 한국어 ไทย हिन्दी", "😀👍🏽 \u200bz\u00a0",
    "\uff21\uff42\uff11\uff01\u3000\uff76\uff9e\uff5e",
    "tabs\tand\nlines  double  ", "I'LL don't '90s 3,50 € ½", "<s> [SEP] </s>", "long word " * 3000,
)  # fmt: skip
"""Texts whose tokens are compared in addition to those of the test split."""


@dataclass(frozen=True)
class TextCompanion:
    """Puts the tokenizer into a copy of `model.onnx`.

    Attributes:
        table: The data set's texts.
        reading: The tokenizer, as JSON.
        preprocessing: How texts become inputs of `model.onnx`.
        num_classes: Number of classes.
    """

    name = "text"

    table: TextTable
    reading: str
    preprocessing: dict[str, Any]
    num_classes: int

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self.reading)

    @cached_property
    def _replaced(self) -> dict[str, str]:
        return find_replaced(self._tokenizer)

    def write(self, source: Path, path: Path) -> dict[str, Any]:
        """Write the file; return what it needs.

        Raises:
            ValueError: The library is missing here, or its operators cannot do what the tokenizer
                does.
        """
        if importlib.util.find_spec(LIBRARY_MODULE) is None:
            raise ValueError(
                f"the Python library {LIBRARY} is missing on the worker; install it there and "
                "export the job again"
            )
        if (obstacle := find_obstacle(self._tokenizer)) is not None:
            raise ValueError(f"{obstacle}; use model.onnx and tokenizer.json")
        shutil.copyfile(source, path)
        embed(
            path,
            self._build,
            joins={PREPARED_IDS: IDS, PREPARED_MASK: MASK},
            output=self.preprocessing["output"],
            num_classes=self.num_classes,
            has_labels=self.table.has_labels,
        )
        library = f"{LIBRARY} {importlib.metadata.version(LIBRARY)}"
        _describe(path, {**self.preprocessing, **_OWN, "library": library})
        return {"library": library}

    def open_samples(self, rows: NDArray[np.int64]) -> "RawTexts":
        """Return the texts of some rows as samples."""
        ordered = np.unique(rows)
        texts = self.table.iter_some(ordered)
        return RawTexts(dict(zip(ordered.tolist(), texts, strict=True)))

    def find_misses(self, rows: NDArray[np.int64]) -> list[str]:
        """Compare the tokens of some rows, and of unusual texts, with those of the tokenizer."""
        opsets = [onnx.helper.make_opsetid("", OPSET)]
        like = onnx.helper.make_model(
            onnx.helper.make_graph([], "empty", [], []), opset_imports=opsets, ir_version=9
        )
        session = open_session(self._build(like).SerializeToString(), threads=1)
        special = [token["content"] for token in json.loads(self.reading)["added_tokens"]]
        unusual = [text for text in UNUSUAL if not any(token in text for token in special)]
        texts = [*self.open_samples(rows).texts.values(), *unusual]
        for start in range(0, len(texts), BATCH):
            for text in self._find_different(session, texts[start : start + BATCH]):
                miss = f"the tokenizer inside the file gives other tokens for {text[:40]!r}"
                return [f"{miss}; use model.onnx with tokenizer.json, and report this"]
        return []

    def _build(self, like: onnx.ModelProto) -> onnx.ModelProto:
        return build_tokenizing(self._tokenizer, replaced=self._replaced, like=like)

    def save(self, rows: NDArray[np.int64]) -> Arrays:
        """Return some texts as they are saved in `parity.npz`."""
        texts = self.open_samples(rows).texts
        content = json.dumps([texts[row] for row in rows.tolist()])
        return {TEXTS: np.frombuffer(content.encode(), np.uint8)}

    def _find_different(self, session: Any, texts: list[str]) -> Iterator[str]:
        ids, mask = session.run(
            [PREPARED_IDS, PREPARED_MASK], {TEXTS: np.array(texts, dtype=object)}
        )
        for text, some, flags, wanted in zip(
            texts, ids, mask, self._tokenizer.encode_batch(texts), strict=True
        ):
            if (some.tolist(), flags.tolist()) != (wanted.ids, wanted.attention_mask):
                yield text


@dataclass(frozen=True)
class RawTexts:
    """Texts as samples, by their rows."""

    texts: dict[int, str]
    noun = "texts"

    def get(self, rows: NDArray[np.int64]) -> Arrays:
        """Return the texts of some rows (N,)."""
        return {TEXTS: np.array([self.texts[row] for row in rows.tolist()], dtype=object)}

    def feed(self, raw: Arrays) -> Arrays:
        """Return them unchanged."""
        return raw


def _describe(path: Path, preprocessing: dict[str, Any]) -> None:
    """Set the preprocessing in a file's metadata."""
    model = onnx.load(path)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    metadata["preprocessing"] = json.dumps(preprocessing, ensure_ascii=False)
    onnx.helper.set_model_props(model, metadata)
    onnx.save_model(model, path)
