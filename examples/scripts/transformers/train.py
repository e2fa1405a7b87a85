"""A text classifier with the Hugging Face Trainer, from a small random DistilBERT."""

import argparse
import os
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch.utils.data import Dataset
from transformers import (
    DistilBertConfig,
    DistilBertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import redkiln

OUT = Path(os.environ.get("REDKILN_OUT", "out"))
CHECKPOINTS = Path(os.environ.get("REDKILN_CHECKPOINTS", "checkpoints"))
CHECKPOINTS.mkdir(parents=True, exist_ok=True)
GOOD = ["fine", "lovely", "great", "warm", "bright"]
BAD = ["poor", "dull", "cold", "broken", "late"]


class TellRedkiln(TrainerCallback):
    """Reports what the Trainer logs as metrics of the job."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        numbers = {k: v for k, v in (logs or {}).items() if isinstance(v, int | float)}
        redkiln.log(numbers, step=state.global_step, steps=state.max_steps)


class Reviews(Dataset):
    """Sentences with one word that makes them good or bad."""

    def __init__(self, num: int) -> None:
        generator = torch.Generator().manual_seed(num)
        self.rows = []
        for number in range(num):
            label = number % 2
            words = GOOD if label else BAD
            word = words[int(torch.randint(len(words), (1,), generator=generator))]
            self.rows.append((f"the thing number {number % 50} was {word} today", label))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict:
        text, label = self.rows[place]
        return {**self.encode(text), "labels": label}

    def use(self, tokenizer: Tokenizer) -> "Reviews":
        """Return tokens instead of text from now on."""

        def encode(text: str) -> dict:
            encoded = tokenizer.encode(text)
            return {"input_ids": encoded.ids, "attention_mask": encoded.attention_mask}

        self.encode = encode
        return self


def build_tokenizer(texts: list[str]) -> Tokenizer:
    """Build a word-level tokenizer from these texts that pads to 12 tokens."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"])
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.enable_padding(length=12)
    tokenizer.enable_truncation(12)
    return tokenizer


def find_newest_checkpoint() -> Path | None:
    """Find the Trainer's newest complete checkpoint; None in the first attempt."""
    # The Trainer writes this file last: an interrupted checkpoint lacks it.
    complete = [path.parent for path in CHECKPOINTS.glob("checkpoint-*/trainer_state.json")]
    return max(complete, key=lambda path: int(path.name.rpartition("-")[2]), default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    train, test = Reviews(1000), Reviews(201)
    tokenizer = build_tokenizer([text for text, _ in train.rows])
    config = DistilBertConfig(
        vocab_size=tokenizer.get_vocab_size(), dim=64, hidden_dim=128, n_layers=2, n_heads=2,
        max_position_embeddings=16, num_labels=2,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=str(CHECKPOINTS), max_steps=options.steps, per_device_train_batch_size=16,
        learning_rate=1e-3, logging_steps=10, save_steps=10, save_total_limit=2,
        report_to=[], disable_tqdm=True, seed=0, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(
        model=DistilBertForSequenceClassification(config), args=arguments,
        train_dataset=train.use(tokenizer), eval_dataset=test.use(tokenizer),
        callbacks=[TellRedkiln()],
    )  # fmt: skip
    newest = find_newest_checkpoint()
    if newest:
        print(f"resumes after step {newest.name.rpartition('-')[2]}", flush=True)
    trainer.train(resume_from_checkpoint=str(newest) if newest else None)
    print(trainer.evaluate())
    trainer.save_model(str(OUT / "model"))
    tokenizer.save(str(OUT / "model" / "tokenizer.json"))


if __name__ == "__main__":
    main()
