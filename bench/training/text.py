"""Text: tokens/s of our loop relative to the Hugging Face Trainer with its defaults.

Both train the same network, the default of the task, from the same weights on the SMS spam
collection. Ours runs in fp32 and in automatic precision with batches of the Trainer's default size,
and as a job that leaves everything `auto`, including the batch size. They alternate in chunks of
steps, so that other load on the machine affects both; padding does not count as tokens. Each figure
is measured in a separate process with the thread and memory settings of a trainer.

`python -m bench.training.text accuracy` trains the default job instead and scores it on its test
split.
"""

import hashlib
import logging
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from bench.image_archives import DATA
from bench.isolated import print_results, run_isolated
from bench.machine import describe_device
from bench.result import Result, at_least, info, spread
from bench.training.job_loop import JobLoop, write_job
from redkiln.datasets import TEST_FRACTION, rank_within_classes, take_fraction
from redkiln.events import EventWriter
from redkiln.tables import METADATA_KEY, RANK, TARGET, Column, TableIndex
from worker.checkpoints.checkpoint import CheckpointStore
from worker.export.samples import choose_samples
from worker.jobdir import JobDir, LocalDataset
from worker.process.event_log import EventLog
from worker.process.memory import keep_freed_memory
from worker.tasks.text_classification.exported import TextSamples
from worker.tasks.text_classification.setup import open_target
from worker.tasks.train import build_loop
from worker.trainer.text.batches import ResidentTexts
from worker.trainer.text.network import TextClassifier, build_network
from worker.trainer.text.tokenizer import PAD

SHARED = DATA / "sms-spam.tsv"
COLUMN = "text"
TRAINER_BATCH = 8
"""The Trainer's default."""
ROUNDS = 9
CHUNK = 60
"""Steps per chunk."""
LEAST_CHUNK = 30
"""Smallest chunk with larger batches: the texts of a batch have one length, drawn at random."""
TARGET_FP32 = 1.3
TARGET_AUTO = 2.5
"""Target of our tokens/s over the Trainer's, for a job that leaves everything `auto`. With the
Trainer's batch size it only applies to machines with matrix units for bf16 (AMX)."""
ACCURACY = 0.98


def run() -> list[Result]:
    """Measure each figure in a separate process."""
    environment = {"TOKENIZERS_PARALLELISM": "true"}
    figures = ("speed", "accuracy")
    return [
        result
        for figure in figures
        for result in run_isolated("bench.training.text", figure, environment=environment)
    ]


def measure_speed() -> list[Result]:
    """Compare our loop in fp32, in automatic precision and as a default job with the Trainer."""
    has_tiles = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    same = {"batch_size": TRAINER_BATCH}
    ways: list[tuple[str, dict[str, Any], float | None]] = [
        ("fp32", {**same, "precision": "fp32"}, TARGET_FP32),
        ("same batch, precision auto", same, TARGET_AUTO if has_tiles else None),
        ("default job, everything auto", {}, TARGET_AUTO),
    ]
    results = []
    for number, (name, training, target) in enumerate(ways):
        with tempfile.TemporaryDirectory(prefix=f"bench-text-{number}-") as folder:
            results.append(over_trainer(Path(folder), name, training=training, target=target))
    return results


def over_trainer(
    root: Path, name: str, *, training: dict[str, Any], target: float | None
) -> Result:
    """Measure chunks of our loop and of the Trainer alternately."""
    with closing(RedkilnChunks(root, training=training)) as redkiln:
        trainer = TrainerChunks(redkiln)
        rates: dict[str, list[float]] = {"redkiln": [], "trainer": []}
        for round_number in range(ROUNDS + 1):
            ways: list[Any] = [("redkiln", redkiln), ("trainer", trainer)]
            for who, way in ways if round_number % 2 else reversed(ways):
                rate = way()
                if round_number:  # the first round warms both up
                    rates[who].append(rate)
    ours, theirs = (statistics.median(rates[who]) for who in ("redkiln", "trainer"))
    pairs = [a / b for a, b in zip(rates["redkiln"], rates["trainer"], strict=True)]
    detail = (
        f"{ours:,.0f} tokens/s, the Trainer {theirs:,.0f}; pairs of {redkiln.chunk} and {CHUNK} "
        f"steps: {spread(pairs)}; distilbert, {redkiln.num_parameters:,} parameters, "
        f"{redkiln.data}, {describe_device()}; batch {redkiln.batch_size} in "
        f"{redkiln.precision}, the Trainer's {TRAINER_BATCH} in fp32"
    )
    title = f"text: tokens/s over the Hugging Face Trainer's, {name}"
    ratio = statistics.median(pairs)
    if target is None:
        return info(title, ratio, "ratio", detail)
    return at_least(title, ratio, "ratio", target, detail)


class RedkilnChunks:
    """A job's loop that runs one chunk per call; timings exclude evaluation."""

    def __init__(self, root: Path, *, training: dict[str, Any]) -> None:
        job_dir, self.data = write_text_job(root, training={"epochs": 1000, **training})
        self._job = JobLoop(job_dir)
        setup = self._job.setup
        self._batches: Any = setup.batches
        self.texts: ResidentTexts = self._batches.texts
        self.tokenizer_path = self.texts.tokenizer_path
        self.steps = setup.plan.steps_per_epoch
        self.precision = setup.spec.training.precision
        self.batch_size = int(setup.spec.training.batch_size)
        self.chunk = max(LEAST_CHUNK, CHUNK * TRAINER_BATCH // self.batch_size)
        self.num_parameters = sum(p.numel() for p in setup.model.parameters())
        self.config: dict[str, Any] = setup.spec.model.config  # type: ignore[attr-defined]
        assert isinstance(setup.model, TextClassifier)
        self.weights = {name: t.clone() for name, t in setup.model.state_dict().items()}

    def __call__(self) -> float:
        """Run one chunk and return its tokens per second."""
        step = self._job.loop.step
        places = [divmod(step + number, self.steps) for number in range(self.chunk)]
        seconds = self._job(self.chunk)
        return self._batches.count_tokens(places) / seconds

    def close(self) -> None:
        """Close the job."""
        self._job.close()


class TrainerChunks:
    """The Hugging Face Trainer with its defaults on the same network and texts, chunk by chunk."""

    def __init__(self, redkiln: RedkilnChunks) -> None:
        from transformers import PreTrainedTokenizerFast
        from transformers.utils import logging as transformers_logging

        transformers_logging.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        logging.getLogger("accelerate").setLevel(logging.ERROR)
        network = build_network(redkiln.config)
        network.load_state_dict(redkiln.weights)
        self._network = network.network
        self._tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(redkiln.tokenizer_path), pad_token=PAD
        )
        self._rows = TokenRows(redkiln.texts)
        self._num_calls = 0
        self._folder = tempfile.TemporaryDirectory(prefix="bench-trainer-")

    def __call__(self) -> float:
        """Run one chunk and return its tokens per second by the Trainer's own clock."""
        from transformers import Trainer, TrainingArguments

        self._num_calls += 1
        arguments = TrainingArguments(
            output_dir=self._folder.name,
            max_steps=CHUNK,
            seed=self._num_calls,  # other texts in every chunk
            per_device_train_batch_size=TRAINER_BATCH,
            dataloader_drop_last=True,  # as ours does, so that both make the same steps
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = Trainer(
                model=self._network,
                args=arguments,
                train_dataset=self._rows,
                processing_class=self._tokenizer,  # pads each batch to its longest text
            )
            self._rows.num_tokens = 0
            seconds = trainer.train().metrics["train_runtime"]
        return self._rows.num_tokens / seconds


class TokenRows(torch.utils.data.Dataset[dict[str, Any]]):
    """Texts for the Trainer, tokenised once.

    Attributes:
        num_tokens: Tokens in the rows read so far.
    """

    def __init__(self, texts: ResidentTexts) -> None:
        self._rows = [texts.tokens_of(int(row)) for row in texts.rows["train"]]
        self._labels = [texts.label_of(int(row)) for row in texts.rows["train"]]
        self.num_tokens = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        ids = self._rows[index]
        self.num_tokens += len(ids)
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "label": self._labels[index]}


def measure_accuracy() -> list[Result]:
    """Train the default job and score its best epoch once on the test split."""
    with tempfile.TemporaryDirectory(prefix="bench-text-") as folder:
        job_dir, data = write_text_job(Path(folder), training={})
        order = job_dir.load_order()
        with closing(EventWriter(job_dir.events_path)) as writer:
            event_log = EventLog(writer, progress_seconds=10.0)
            began = time.perf_counter()
            loop, setup = build_loop(job_dir, order, event_log=event_log, should_stop=lambda: False)
            loop.run()
            seconds = time.perf_counter() - began
            store = CheckpointStore(job_dir.checkpoints_dir)
            best = store.find_best()
            assert best is not None
            weights = store.load(best.name).weights
            target = open_target(order, setup.spec, weights=weights, event_log=event_log)
    accuracy, num = _score(target)
    training = setup.spec.training
    detail = (
        f"{num} test texts of {data}, a tenth of each class held out; the default job: "
        f"{training.epochs} epochs, batch {training.batch_size}, {training.precision}, seed "
        f"{training.seed}; best epoch {best.epoch} by validation; {seconds:.0f} s"
    )
    target = ACCURACY if SHARED.exists() else None
    if target is None:
        return [info("text: test accuracy", accuracy, "share", detail)]
    return [at_least("text: SMS test accuracy", accuracy, "share", target, detail)]


def _score(target: Any) -> tuple[float, int]:
    rows = choose_samples(test=target.rows["test"], others=np.array([], dtype=np.int64)).rows
    samples: TextSamples = target.samples
    num_right = 0
    for start in range(0, len(rows), 64):
        some = rows[start : start + 64]
        inputs = samples.feed(samples.get(some))
        with torch.inference_mode():
            logits = target.exportable.module(*map(torch.from_numpy, inputs.values()))
        num_right += int((logits.argmax(1).numpy() == target.targets[some]).sum())
    return num_right / len(rows), len(rows)


def write_text_job(root: Path, *, training: dict[str, Any]) -> tuple[JobDir, str]:
    """Write a job directory for the SMS collection, or for generated texts if it is missing.

    Returns:
        The directory and a name of the data.
    """
    root.mkdir(exist_ok=True)
    rows, data = read_texts()
    dataset = describe_texts(root, rows)
    spec = {"task": "text-classification", "dataset": "bench", "training": training}
    return write_job(root, spec, dataset), data


def describe_texts(
    root: Path, rows: list[tuple[str, str]], *, num_test: int | None = None
) -> LocalDataset:
    """Write (label, text) pairs below `root`, as a validated data set.

    Args:
        root: Folder of the file.
        rows: The pairs.
        num_test: How many of the last pairs are the test split; None for a tenth of each class.
    """
    index_path = root / "texts.parquet"
    write_table(index_path, rows, num_test=num_test)
    return LocalDataset(
        name="bench",
        kind="archive",
        index_path=str(index_path),
        fingerprint=hashlib.sha256(index_path.read_bytes()).hexdigest(),
    )


def read_texts() -> tuple[list[tuple[str, str]], str]:
    """Return (label, text) pairs and a name of the data."""
    if SHARED.exists():
        lines = SHARED.read_text(encoding="utf-8").splitlines()
        pairs = [line.split("\t", 1) for line in lines]
        return [(label, text) for label, text in pairs], "SMS spam collection"
    generator = np.random.default_rng(0)
    words = [f"word{number}" for number in range(5000)]
    made = []
    for number in range(5000):
        length = int(np.clip(generator.lognormal(2.7, 0.6), 2, 150))
        chosen = generator.zipf(1.5, size=length).clip(max=2500) + 2400 * (number % 2)
        made.append((str(number % 2), " ".join(words[place] for place in chosen)))
    return made, "generated texts"


def write_table(path: Path, rows: list[tuple[str, str]], *, num_test: int | None = None) -> None:
    """Write the table that validation produces; see `describe_texts`."""
    classes = sorted({label for label, _ in rows})
    labels: NDArray[np.int64] = np.array([classes.index(label) for label, _ in rows])
    ranks = rank_within_classes(labels.tolist(), seed=0)
    held = np.array(take_fraction(labels.tolist(), ranks, fraction=TEST_FRACTION))
    if num_test is not None:
        held = np.arange(len(rows)) >= len(rows) - num_test
    order = np.argsort(held, kind="stable")
    labels = labels[order]
    num_train = int((~held).sum())
    parts = labels[:num_train], labels[num_train:]
    ranks = [rank for part in parts for rank in rank_within_classes(part.tolist(), seed=0)]
    index = TableIndex(
        task="text-classification",
        columns=[Column(name=COLUMN, type="text")],
        target="label",
        classes=classes,
        num_train=num_train,
        num_test=len(rows) - num_train,
        seed=0,
        held_out_test=True,
    )
    table = pa.table(
        {
            COLUMN: pa.array([rows[place][1] for place in order], pa.string()),
            TARGET: pa.array(labels, pa.int32()),
            RANK: pa.array(ranks, pa.int32()),
        }
    )
    metadata = {METADATA_KEY: index.model_dump_json()}
    pq.write_table(table.replace_schema_metadata(metadata), path)


if __name__ == "__main__":
    keep_freed_memory()
    measure = {"speed": measure_speed, "accuracy": measure_accuracy}[sys.argv[1]]
    print_results(measure())
