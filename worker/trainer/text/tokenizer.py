"""What turns a text into tokens: trained on a job's own texts, or that of a pretrained model.

Either is one `tokenizers.Tokenizer`, which cuts at the model's length and pads to the longest of a
batch, so that its `tokenizer.json` alone is what a user of the exported model needs.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.failure import FailureCode
from worker.process.failed import TrainingFailed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
SPECIAL = (PAD, UNKNOWN, START, END)
PAD_ID = SPECIAL.index(PAD)
"""Of a tokenizer that was trained here."""
FILE = "tokenizer.json"
VOCABULARIES = ("vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")
"""Files of tokenizers from before there was one file for all."""
KIND = "byte-level BPE"


def train_tokenizer(
    texts: Iterable[str], *, vocabulary_size: int, max_length: int, lowercase: bool
) -> "Tokenizer":
    """A vocabulary of pairs of bytes of these texts; the same texts always make the same one.

    Not WordPiece: `tokenizers` numbers the letters within words as it comes upon them, in the order
    of a hash table, and so makes another vocabulary in every process (0.23.3). Bytes have numbers.

    What a text says never becomes a special token, neither here nor by the tokenizer's file: a text
    with `[SEP]` in it would have two ends.

    Args:
        texts: of the training split alone.
        vocabulary_size: largest number of tokens.
        max_length: tokens after which a text is cut, with the first and the last special one.
        lowercase: also strips accents.
    """
    # Importing takes a while, and only texts pay for it.
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as ByteLevelDecoder
    from tokenizers.models import BPE
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.processors import TemplateProcessing
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
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


def load_tokenizer(folder: Path, *, max_length: int, pad_id: int) -> "Tokenizer":
    """The tokenizer of a pretrained model's folder.

    It finds its special tokens in texts, as its makers meant it to: what would keep it from that
    (`encode_special_tokens`) is not a part of its file (0.23.3), so that whoever uses the exported
    model would have other tokens than the training had.

    Args:
        folder: with `tokenizer.json`, or the older files that transformers makes one of.
        max_length: tokens after which a text is cut.
        pad_id: of the model.

    Raises:
        TrainingFailed: the folder holds none.
    """
    from tokenizers import Tokenizer

    path = folder / FILE
    try:
        tokenizer = Tokenizer.from_file(str(path)) if path.exists() else _convert(folder)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:300]
        message = (
            f"the pretrained model in {folder} has no tokenizer that can be read ({reason}); put "
            f"its {FILE} beside config.json"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/model/pretrained") from error
    return fit_tokenizer(tokenizer, max_length=max_length, pad_id=pad_id)


def parse_tokenizer(content: str, *, max_length: int, pad_id: int) -> "Tokenizer":
    """The tokenizer of a `tokenizer.json`'s text, with the cut and the padding that a model wants.

    Raises:
        ValueError: it is none.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(content)
    except Exception as error:  # the library's own are all of this one class
        raise ValueError(str(error).strip().partition("\n")[0][:300]) from error
    return fit_tokenizer(tokenizer, max_length=max_length, pad_id=pad_id)


def fit_tokenizer(tokenizer: "Tokenizer", *, max_length: int, pad_id: int) -> "Tokenizer":
    """The same tokenizer with the cut and the padding that a model wants."""
    tokenizer.enable_truncation(max_length)
    pad_token = tokenizer.id_to_token(pad_id) or PAD
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    return tokenizer


def _look_for_none(tokenizer: "Tokenizer") -> "Tokenizer":
    """The same tokenizer, which looks for no special token in a text.

    They stay in the vocabulary, where the template, the padding and the stand-in find them. No pair
    of bytes makes one: letters and brackets are parted before.
    """
    from tokenizers import Tokenizer

    content = json.loads(tokenizer.to_str())
    content["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(content))


def _convert(folder: Path) -> "Tokenizer":
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    # Without any of them transformers makes up a tokenizer that knows no word.
    if not any((folder / name).exists() for name in VOCABULARIES):
        raise FileNotFoundError(f"there is none of {', '.join((FILE, *VOCABULARIES))}")
    converted = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokenizer = getattr(converted, "backend_tokenizer", None)
    if tokenizer is None:
        raise ValueError(f"it is of a kind without a fast form: {type(converted).__name__}")
    return Tokenizer.from_str(tokenizer.to_str())
