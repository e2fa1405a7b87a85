"""What turns a text into tokens: trained on a job's own texts, or that of a pretrained model.

Either is one `tokenizers.Tokenizer`, which cuts at the model's length and pads to the longest of a
batch, so that its `tokenizer.json` alone is what a user of the exported model needs.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from redkiln.failure import FailureCode
from worker.trainer.failed import TrainingFailed

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, UNKNOWN, START, END = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
SPECIAL = (PAD, UNKNOWN, START, END)
FILE = "tokenizer.json"
WORD_PIECE = "wordpiece"
LARGEST_ALPHABET = 1000
"""Characters that are kept as such; rarer ones are unknown."""


def train_tokenizer(
    texts: Iterable[str], *, vocabulary_size: int, max_length: int, lowercase: bool
) -> "Tokenizer":
    """A WordPiece vocabulary of these texts; the same texts always make the same one.

    Args:
        texts: of the training split alone.
        vocabulary_size: largest number of tokens.
        max_length: tokens after which a text is cut, with the first and the last special one.
        lowercase: also strips accents, as BERT's uncased models do.
    """
    # Importing takes a while, and only texts pay for it.
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer
    from tokenizers.processors import TemplateProcessing
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = Tokenizer(WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    trainer = WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL),
        limit_alphabet=min(LARGEST_ALPHABET, vocabulary_size // 2),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = TemplateProcessing(
        single=f"{START} $A {END}",
        pair=f"{START} $A {END} $B {END}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (START, END)],
    )
    return fit_tokenizer(tokenizer, max_length=max_length, pad_id=SPECIAL.index(PAD))


def load_tokenizer(folder: Path, *, max_length: int, pad_id: int) -> "Tokenizer":
    """The tokenizer of a pretrained model's folder.

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


def fit_tokenizer(tokenizer: "Tokenizer", *, max_length: int, pad_id: int) -> "Tokenizer":
    """The same tokenizer with the cut and the padding that a model wants."""
    tokenizer.enable_truncation(max_length)
    pad_token = tokenizer.id_to_token(pad_id) or PAD
    tokenizer.enable_padding(pad_id=pad_id, pad_token=pad_token)
    return tokenizer


def _convert(folder: Path) -> "Tokenizer":
    from tokenizers import Tokenizer
    from transformers import AutoTokenizer

    converted = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    tokenizer = getattr(converted, "backend_tokenizer", None)
    if tokenizer is None:
        raise ValueError(f"it is of a kind without a fast form: {type(converted).__name__}")
    return Tokenizer.from_str(tokenizer.to_str())
