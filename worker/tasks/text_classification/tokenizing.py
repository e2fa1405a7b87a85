"""The tokenizer of a text model as an ONNX graph, with operators of onnxruntime-extensions.

Its `GPT2Tokenizer` finds byte pairs like ours, but neither cleans texts nor marks their ends. So
the graph first replaces each character by what the tokenizer's normalizer makes of it. The table of
characters is found by asking the normalizer, so any one that works character by character will do.

Shapes: B batch, C characters of the longest text, T tokens of the longest text.
"""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from redkiln.predict.texts import IDS, MASK, TEXTS
from worker.export.embedding.merge import ML
from worker.trainer.text.tokenizer import SPLITS

if TYPE_CHECKING:
    from tokenizers import Tokenizer

EXTENSIONS, MICROSOFT = "ai.onnx.contrib", "com.microsoft"
PREPARED_IDS, PREPARED_MASK = f"{IDS} prepared", f"{MASK} prepared"
CHARACTERS = (
    range(0x3400), range(0x4DC0, 0x4E00), range(0xA000, 0xAC00), range(0xD7A4, 0xD800),
    range(0xE000, 0x20000), range(0x2F800, 0x2FA20), range(0xE0000, 0xE0200),
)  # fmt: skip
"""Characters whose normal form is looked up: all but the ideographs and syllables of Chinese and
Korean, which stay, and the private planes."""
APART = "\u4e00"
"""A character that no normalizer changes or joins with its neighbours."""
SPECIAL = "<|endoftext|>"
"""GPT2Tokenizer takes it for one token, which our vocabularies lack."""
ML_OPSET = 3


def find_obstacle(tokenizer: "Tokenizer") -> str | None:
    """Return why the operators cannot do what a tokenizer does; None if they can."""
    content = json.loads(tokenizer.to_str())
    model, before = content["model"], content["pre_tokenizer"]
    if model["type"] != "BPE":
        return f"the tokenizer is of the kind {model['type']}, not byte pairs (BPE)"
    steps = before.get("pretokenizers", [before]) if before else []
    if not _splits_like_gpt2(steps):
        return "the tokenizer splits words in another way than GPT-2's"
    unusual = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")
    if any(model.get(name) for name in (*unusual, "byte_fallback")):
        return "the tokenizer has options that GPT-2's lacks"
    if _find_lead(tokenizer) is None:
        return (
            "the tokenizer's normalizer does more than replace characters and add a leading space"
        )
    for side in ("truncation", "padding"):
        if content[side]["direction"] != "Right":
            return f"the tokenizer does {side} at the start of a text, not at the end"
    if not sum(_find_ends(tokenizer), ()):
        return "the tokenizer marks neither the start nor the end of a text"
    if (token := _find_joined_mark(tokenizer)) is not None:
        return (
            f"the vocabulary has tokens such as {token!r}, which contain vowel signs or other "
            "marks; GPT-2's tokenizer splits words there"
        )
    return None


def build_tokenizing(
    tokenizer: "Tokenizer", *, replaced: Mapping[str, str], like: onnx.ModelProto
) -> onnx.ModelProto:
    """Return the graph of texts (B,) to ids and mask (B, T), with the operator sets of a model.

    Args:
        tokenizer: A tokenizer without an obstacle (`find_obstacle`).
        replaced: The characters that its normalizer changes (`find_replaced`).
        like: The model that the graph will precede.
    """
    graph = _Graph()
    graph.add_cleaning(tokenizer, replaced)
    graph.add_pairs(tokenizer)
    graph.add_ends(tokenizer)
    opsets = {entry.domain: entry.version for entry in like.opset_import}
    opsets = {ML: ML_OPSET, EXTENSIONS: 1, MICROSOFT: 1, **opsets}
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in (PREPARED_IDS, PREPARED_MASK)
    ]
    texts = helper.make_tensor_value_info(TEXTS, TensorProto.STRING, ["batch"])
    model: onnx.ModelProto = helper.make_model(
        helper.make_graph(
            graph.nodes, "tokenizer", [texts], outputs, graph.constants, value_info=graph.known
        ),
        opset_imports=[helper.make_opsetid(*pair) for pair in opsets.items()],
        ir_version=like.ir_version,
    )
    return model


class _Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.known: list[onnx.ValueInfoProto] = []

    def add_cleaning(self, tokenizer: "Tokenizer", table: Mapping[str, str]) -> None:
        """Add the normalizer: `cleaned` (B,)."""
        characters = self._node(
            "Tokenizer", TEXTS, domain=MICROSOFT, mark=0, mincharnum=1, pad_value="",
            separators=[""],
        )  # fmt: skip
        # onnx 1.23.2 crashes on a LabelEncoder whose input has no known type.
        kind = helper.make_tensor_value_info(characters, TensorProto.STRING, ["batch", None])
        self.known.append(kind)
        keys = {"domain": ML, "keys_strings": [*table, ""]}
        new = self._node(
            "LabelEncoder", characters, values_strings=[*table.values(), ""], default_string="",
            **keys,
        )  # fmt: skip
        is_new = self._node(
            "LabelEncoder", characters, values_int64s=[1] * (len(table) + 1), default_int64=0,
            **keys,
        )  # fmt: skip
        is_new = self._node("Cast", is_new, to=TensorProto.BOOL)
        both = self._node("Where", is_new, new, characters)
        joined = self._node(
            "StringJoin", both, self._texts("nothing", ""), self._ints("joined axis", 1),
            domain=EXTENSIONS,
        )  # fmt: skip
        if _find_lead(tokenizer):
            joined = self._replace(joined, "^ +$", "")
            joined = self._replace(joined, "^ *([^ ])", r" \1")
        if SPECIAL not in tokenizer.get_vocab():
            joined = self._replace(joined, r"<\|endoftext\|>", "<| endoftext|>")
        self.cleaned = joined

    def add_pairs(self, tokenizer: "Tokenizer") -> None:
        """Add the byte pairs: `ids` (B, T) without the tokens around a text, and its `length`."""
        model = json.loads(tokenizer.to_str())["model"]
        pairs = (pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"])
        self.ids, mask = "pairs ", "pairs mask "
        self._put(
            "GPT2Tokenizer", [self.cleaned], [self.ids, mask], domain=EXTENSIONS,
            padding_length=-1, vocab=json.dumps(model["vocab"], ensure_ascii=False),
            merges="\n".join(["#version: 0.2", *pairs]),
        )  # fmt: skip
        length = self._node("ReduceSum", mask, self._ints("tokens axis", 1), keepdims=1)
        ends = sum(map(len, _find_ends(tokenizer)))
        most = json.loads(tokenizer.to_str())["truncation"]["max_length"] - ends
        self.length = self._node("Min", length, self._ints("most", most))

    def add_ends(self, tokenizer: "Tokenizer") -> None:
        """Add truncation, the tokens around a text, and padding: ids and mask (B, T)."""
        start, end = _find_ends(tokenizer)
        padding = self._ints("padding", json.loads(tokenizer.to_str())["padding"]["pad_id"])
        longest = self._node("ReduceMax", self.length, keepdims=0)
        rows = self._node("Shape", self.length)
        axis = self._ints("slice axis", 1)
        width = self._node("Reshape", longest, self._ints("one", 1))
        cut = self._node("Slice", self.ids, self._ints("zero", 0), width, axis)
        heads = self._node("Expand", self._ints("start", [start or ()]), self._width(rows, start))
        tails = self._node("Expand", padding, self._width(rows, end))
        ids = self._node("Concat", heads, cut, tails, axis=1)
        total = self._node("Add", longest, self._scalar("ends", len(start) + len(end)))
        places = self._node("Range", self._scalar("first", 0), total, self._scalar("step", 1))
        behind = self._node("Add", self.length, self._ints("before", len(start)))
        ids = self._node("Where", self._node("Less", places, behind), ids, padding)
        for number, token in enumerate(end):
            here = self._node("Equal", places, behind)
            ids = self._node("Where", here, self._ints(f"end {number}", token), ids)
            behind = self._node("Add", behind, self._ints(f"next {number}", 1))
        self._put("Identity", [ids], [PREPARED_IDS])
        self._put("Cast", [self._node("Less", places, behind)], [PREPARED_MASK], to=7)

    def _width(self, rows: str, tokens: Sequence[int]) -> str:
        """Return the shape (B, number of tokens) for rows of the shape (B, 1)."""
        one = self._ints(f"factor {len(self.constants)}", [1, len(tokens)])
        return self._node("Mul", rows, one)

    def _replace(self, texts: str, pattern: str, by: str) -> str:
        place = len(self.nodes)
        given = self._texts(f"pattern {place}", pattern), self._texts(f"by {place}", by)
        return self._node("StringRegexReplace", texts, *given, domain=EXTENSIONS)

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind} {len(self.nodes)} "
        self._put(kind, inputs, [name], **attributes)
        return name

    def _put(
        self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))

    def _texts(self, name: str, text: str) -> str:
        array = np.array([text], dtype=object)
        self.constants.append(numpy_helper.from_array(array, f"{name} "))
        return f"{name} "

    def _ints(self, name: str, values: Any) -> str:
        array = np.atleast_1d(np.array(values, np.int64))
        self.constants.append(numpy_helper.from_array(array, f"{name} "))
        return f"{name} "

    def _scalar(self, name: str, value: int) -> str:
        self.constants.append(numpy_helper.from_array(np.array(value, np.int64), f"{name} "))
        return f"{name} "


def find_replaced(tokenizer: "Tokenizer") -> dict[str, str]:
    """Return what a tokenizer's normalizer makes of each character that it changes."""
    normalizer = tokenizer.normalizer
    if normalizer is None:
        return {}
    found: dict[str, str] = {}
    for part in CHARACTERS:
        characters = [chr(code) for code in part if chr(code) != APART]
        normal = normalizer.normalize_str(APART + APART.join(characters) + APART)
        pieces = normal.strip(" ").split(APART)[1:-1]
        pairs = zip(characters, pieces, strict=True)
        found |= {character: piece for character, piece in pairs if character != piece}
    return found


def _splits_like_gpt2(steps: Sequence[dict[str, Any]]) -> bool:
    """Return whether words are split by GPT-2's pattern or by one that gives the same pairs.

    Our words differ in marks. Pairs within characters are the same however words are split.
    """
    *splits, last = steps or [{"type": ""}]
    if last["type"] != "ByteLevel" or last["add_prefix_space"]:
        return False
    patterns = [step.get("pattern", {}).get("Regex") for step in splits]
    return patterns == [] if last["use_regex"] else patterns in [[pattern] for pattern in SPLITS]


def _find_lead(tokenizer: "Tokenizer") -> bool | None:
    """Return whether a text begins with exactly one blank; None if the normalizer does else."""
    normalizer = tokenizer.normalizer
    if normalizer is None:
        return False
    found = [normalizer.normalize_str(text) for text in ("a", "  a  ", "")]
    known = {(" a", " a  ", ""): True, ("a", "  a  ", ""): False}
    return known.get((found[0], found[1], found[2]))


def _find_ends(tokenizer: "Tokenizer") -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens before and after a text."""
    encoding = tokenizer.encode("a")
    inside = [place for place, flag in enumerate(encoding.special_tokens_mask) if not flag]
    real = [
        token for token, flag in zip(encoding.ids, encoding.attention_mask, strict=True) if flag
    ]
    return tuple(real[: inside[0]]), tuple(real[inside[-1] + 1 :])


def _find_joined_mark(tokenizer: "Tokenizer") -> str | None:
    """Return a token that joins a mark, such as a vowel sign of Hindi, with another character."""
    from tokenizers.decoders import ByteLevel

    decoder = ByteLevel()
    for token in tokenizer.get_vocab():
        text = decoder.decode([token])
        if len(text) > 1 and any(unicodedata.category(one).startswith("M") for one in text):
            return text
    return None
