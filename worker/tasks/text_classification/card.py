"""The card's texts about a text classifier: how to run it, and its tokens."""

import json
from collections.abc import Mapping
from typing import Any

from redkiln.tasks.text_classification import NGRAMS
from worker.export.card.usage import LABELS, SOFTMAX
from worker.export.target import CardTexts

HEAD = """```python
import json
import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import, or it reports its use

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
metadata = session.get_modelmeta().custom_metadata_map
classes = json.loads(metadata["classes"])
tokenizer = Tokenizer.from_file("tokenizer.json")  # truncates long texts and pads short ones
"""
BODY = """

def predict(texts):
    encodings = tokenizer.encode_batch(texts)
    (outputs,) = session.run(
        None,
        {
            "input_ids": np.array([e.ids for e in encodings], dtype=np.int64),
            "attention_mask": np.array([e.attention_mask for e in encodings], dtype=np.int64),
        },
    )
"""
CLASSES = """    return [dict(zip(classes, softmax(row), strict=True)) for row in outputs]
"""
CALL = """

(answer,) = predict([EXAMPLE])
print(answer)
```"""
"""The end of the snippet; `EXAMPLE` is replaced by a text of the test split."""
USAGE = HEAD + SOFTMAX + BODY + CLASSES
USAGE_LABELS = (
    HEAD.rstrip("\n")
    + LABELS
    + BODY
    + """    return [find_labels(row) for row in outputs]
"""
)


def write_text_texts(
    model: dict[str, Any],
    *,
    num_classes: int,
    preprocessing: dict[str, Any],
    facts: dict[str, Any],
    example: str,
) -> CardTexts:
    """Write the parts of the card that are about texts.

    Args:
        model: `model` of the resolved spec.
        num_classes: Number of classes.
        preprocessing: Preprocessing in the manifest.
        facts: Facts about the data set's tokens (`worker.trainer.text.tokens.TokenFacts`).
        example: A text that the code classifies.
    """
    length = preprocessing["max_length"]
    pretrained = model["pretrained"]
    origin = (
        f"Initial weights and tokenizer: `{pretrained}` ({model['initial_weights']})"
        if pretrained
        else "Initial weights: random; the tokenizer was trained on the training texts"
    )
    if model["name"] == NGRAMS and (kind := _describe_runs(model["config"])):
        origin = f"{kind}. {origin}"
    has_labels = "labels_separator" in preprocessing
    code = (USAGE_LABELS if has_labels else USAGE) + CALL
    code = code.replace("EXAMPLE", json.dumps(example, ensure_ascii=False))
    does = f"sorts texts of up to {length} tokens into {num_classes} classes"
    if has_labels:
        does = f"finds which of {num_classes} labels texts of up to {length} tokens have"
    gives = (
        "`probabilities` (batch, classes), one for each class"
        if has_labels
        else ("`logits` (batch, classes)")
    )
    return CardTexts(
        does=does,
        usage="`model.onnx` takes `input_ids` and `attention_mask`, int64 (batch, tokens), any "
        f"number of texts of up to {length} tokens; `tokenizer.json` makes them from texts. It "
        f"returns {gives}; its metadata contain the class names"
        f"{' and thresholds' if has_labels else ''}.\n\n{code}",
        preprocessing=f"`tokenizer.json`, {facts['vocabulary_size']:,} tokens"
        f"{_describe_case(preprocessing)}; on average "
        f"{facts['num_tokens'] / facts['num_rows']:.1f} tokens per text, "
        f"{facts['longest']:,} at most{_describe_truncation(facts, length)}",
        training=[origin, "Batches: texts of similar length, padded to the longest"],
    )


def _describe_runs(config: Mapping[str, Any]) -> str:
    """Return the kind of a linear model of characters; empty for one of parts of words."""
    if config.get("blank_id") is None:
        return ""
    return (
        f"Linear model: each run of 1 to {config['longest']} neighbouring characters of a word has "
        "a weight for each class, and rare runs count more. Each character is a token"
    )


def _describe_case(preprocessing: dict[str, Any]) -> str:
    match preprocessing.get("lowercase"):
        case True:
            return ", without upper case and accents"
        case False:
            return ", with upper case and accents"
    return ""


def _describe_truncation(facts: dict[str, Any], length: int) -> str:
    if not facts["num_truncated"]:
        return ", none truncated"
    return f"; {facts['num_truncated']:,} of {facts['num_rows']:,} texts were truncated to {length}"
