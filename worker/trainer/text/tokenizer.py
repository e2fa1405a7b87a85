"""The tokenizer of a text model: trained on a job's own texts, or from a pretrained model.

Both are a `tokenizers.Tokenizer` that truncates to the model's length and pads to the longest text
of a batch, so its `tokenizer.json` is all that a user of the exported model needs.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.normalizers import Normalizer

PAD, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
SPECIAL = (PAD, UNKNOWN, START, END)
PAD_ID = SPECIAL.index(PAD)
"""Padding token of a tokenizer trained here."""
FILE = "tokenizer.json"
VOCABULARIES = ("vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")
"""Files of older tokenizers, before `tokenizer.json`."""
KIND = "byte-level BPE, ASCII for full width"
"""Description of these tokenizers in the key of cached tokens."""
_WIDE, _WIDTH = range(0xFF01, 0xFF5F), 0xFEE0
"""Full-width letters, digits and marks, and their distance from those of ASCII."""
_ACCENTS = r"[\u0300-\u036f]"
"""Combining marks of Latin, Greek and Cyrillic letters."""
_LETTERS = r"\p{L}\p{M}"
_WORDS = (
    rf"'(?:s|t|re|ve|m|ll|d)| ?[{_LETTERS}]+| ?\p{{N}}+| ?[^\s{_LETTERS}\p{{N}}]+|\s+(?!\S)|\s+"
)
"""Words with the blank before them. Marks belong to words: Thai and Hindi vowels are marks."""
_CHARACTERS = r"[\s\S]"
SPLITS = (_WORDS, _CHARACTERS)
"""The patterns by which tokenizers that are trained here split texts before pairs are formed."""
BLANK_ID = 224
"""Token of a blank in every tokenizer trained here, because bytes have fixed numbers."""


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocabulary_size: int,
    max_length: int,
    lowercase: bool,
    has_characters: bool = False,
) -> "Tokenizer":
    """Train a vocabulary of byte pairs; the same texts always give the same vocabulary.

    Not WordPiece, because `tokenizers` numbers the letters within words in the order of a hash
    table and so builds another vocabulary in every process (0.23.3). Bytes have fixed numbers. Text
    never becomes a special token, neither here nor when the tokenizer's file is used: a text that
    contains `[SEP]` would otherwise have two ends.

    Args:
        texts: Texts of the training split only.
        vocabulary_size: Largest number of tokens.
        max_length: Tokens after which a text is truncated, including the special ones around it.
        lowercase: Whether to ignore case and strip accents.
        has_characters: Whether each character of the texts becomes a separate token, and other
            characters become bytes. Pairs of bytes then never join characters.
    """
    # Imported here because it takes a while and only texts need it.
    from tokenizers import Regex, Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
    from tokenizers.processors import TemplateProcessing
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = _build_normalizer(lowercase=lowercase)
    pattern = _CHARACTERS if has_characters else _WORDS
    tokenizer.pre_tokenizer = Sequence(
        [Split(Regex(pattern), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{START} $A {END}",
        pair=f"{START} $A {END} $B {END}",
        special_tokens=[(name, SPECIAL.index(name)) for name in (START, END)],
    )
    return fit_tokenizer(_look_for_none(tokenizer), max_length=max_length, pad_id=PAD_ID)


def _build_normalizer(*, lowercase: bool) -> "Normalizer":
    """Build the normalizer: clean blanks and control characters, and begin with a blank.

    Full-width letters become ASCII. Other compatibility forms stay (NFKC would replace them),
    because some join with their neighbours, which the graph of `tokenizing.py` cannot do.

    Only accents are removed, which are marks of Latin, Greek and Cyrillic. The marks of other
    scripts are vowels and tones (Thai, Hindi) or make another letter (Japanese). Chinese
    characters stay together, so that the vocabulary contains words of several characters.
    """
    from tokenizers import Regex
    from tokenizers.normalizers import NFC, NFD, BertNormalizer, Prepend, Replace, Sequence, Strip

    clean = BertNormalizer(lowercase=lowercase, strip_accents=False, handle_chinese_chars=False)
    narrow = [Replace(chr(code), chr(code - _WIDTH)) for code in _WIDE]
    accents = [NFD(), Replace(Regex(_ACCENTS), ""), NFC()] if lowercase else []
    return Sequence([*narrow, clean, *accents, Strip(left=True, right=False), Prepend(" ")])


def load_tokenizer(folder: Path, *, max_length: int, pad_id: int) -> "Tokenizer":
    """Load the tokenizer in a pretrained model's folder.

    It recognises special tokens in texts, as its authors intended. The option against this
    (`encode_special_tokens`) is not stored in its file (0.23.3), so users of the exported model
    would get other tokens than training did.

    Args:
        folder: Folder with `tokenizer.json`, or with older files that transformers can convert.
        max_length: Tokens after which a text is truncated.
        pad_id: The model's padding token.

    Raises:
        TrainingFailed: the folder has no usable tokenizer.
    """
    from tokenizers import Tokenizer

    path = folder / FILE
    try:
        tokenizer = Tokenizer.from_file(str(path)) if path.exists() else _convert(folder)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:300]
        message = (
            f"the pretrained model in {folder} has no usable tokenizer ({reason}); put its {FILE} "
            "next to config.json"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/pretrained") from error
    return fit_tokenizer(tokenizer, max_length=max_length, pad_id=pad_id)


def parse_tokenizer(content: str, *, max_length: int, pad_id: int) -> "Tokenizer":
    """Parse the content of a `tokenizer.json` and set the truncation and padding of a model.

    Raises:
        ValueError: the content is not a tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library raises only this class
        raise ValueError(str(error).strip().partition("\n")[0][:300]) from error
    return fit_tokenizer(tokenizer, max_length=max_length, pad_id=pad_id)


def fit_tokenizer(tokenizer: "Tokenizer", *, max_length: int, pad_id: int) -> "Tokenizer":
    """Set the truncation and padding of a model on a tokenizer and return it."""
    tokenizer.enable_truncation(max_length)
    pad_token = tokenizer.id_to_token(pad_id) or PAD
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    return tokenizer


def _look_for_none(tokenizer: "Tokenizer") -> "Tokenizer":
    """Return the same tokenizer without recognition of special tokens in texts.

    They stay in the vocabulary for the template, padding and unknown words. No byte pair becomes
    one, because letters and brackets are split before pairs are formed.
    """
    from tokenizers import Tokenizer

    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(content))


def _convert(folder: Path) -> "Tokenizer":
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    # Without any of these files transformers would create a tokenizer that knows no words.
    if not any((folder / name).exists() for name in VOCABULARIES):
        raise FileNotFoundError(f"the folder contains none of {', '.join((FILE, *VOCABULARIES))}")
    converted = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokenizer = getattr(converted, "backend_tokenizer", None)
    if tokenizer is None:
        raise ValueError(f"its {type(converted).__name__} cannot be converted to {FILE}")
    return Tokenizer.from_str(tokenizer.to_str())
