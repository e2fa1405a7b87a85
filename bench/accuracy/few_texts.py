"""Default jobs on few texts next to scikit-learn's logistic regression on TF-IDF.

The sets are those of `text_sets`, and messages whose test texts are worded unlike the training
texts (`wordings`). All are tested on the same texts. The job is scored under ONNX Runtime.

`python -m bench.accuracy few-texts [--set NAME] [--texts N] [--test N]`
"""

import argparse
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import worker.trainer.text.ngrams  # noqa: F401  # its imports take longer than a training
from bench.accuracy.default_job import open_best, train_job
from bench.accuracy.text_sets import SETS
from bench.accuracy.wordings import PARTS, write_texts
from bench.training.job_loop import write_job
from bench.training.text import describe_texts
from redkiln.cells.blanks import lack_blanks
from redkiln.spec.quality import lengthen
from redkiln.tasks import parse_spec
from worker.export.onnx_file import open_session, write_onnx
from worker.export.parity import onnx_predict, predict_all

Pairs = list[tuple[str, str]]
UNSEEN = {f"unseen-{language}": language for language in PARTS}
"""Languages of the sets of unseen wordings, by the sets' names."""
BATCH = 64
INVERSE_PENALTY = 10.0
"""`C` of scikit-learn's logistic regression."""


def score_job(train: Pairs, test: Pairs) -> str:
    """Train a default job; return its accuracy, CPU seconds and the size of its ONNX file."""
    with tempfile.TemporaryDirectory(prefix="bench-texts-") as folder:
        root = Path(folder)
        spec = {"task": "text-classification", "dataset": "bench"}
        usual = parse_spec(spec).model_dump()["training"]["epochs"]
        training = {"epochs": lengthen(usual, num_train=len(train))}
        dataset = describe_texts(root, train + test, num_test=len(test))
        job_dir = write_job(root, {**spec, "training": training}, dataset)
        start = time.process_time()
        resolved = train_job(job_dir)
        seconds = time.process_time() - start
        target, path = open_best(job_dir, resolved), root / "model.onnx"
        write_onnx(target.exportable, path, opset=target.spec.export.opset, metadata={})
        predict, rows = onnx_predict(open_session(path, threads=1)), target.rows["test"]
        outputs = predict_all(predict, target.samples, rows, batch_size=BATCH)
        accuracy = (outputs.argmax(axis=1) == np.asarray(target.targets)[rows]).mean()
        return f"{accuracy:.1%} | {seconds:.1f} | {path.stat().st_size / 1e6:.1f}"


def score_rivals(train: Pairs, test: Pairs) -> str:
    """Return the accuracies of logistic regression on words, and on characters."""
    texts, asked = ([text for _, text in pairs] for pairs in (train, test))
    answers = np.array([label for label, _ in test])
    characters = [("char", (1, 2))] if lack_blanks(texts) else [("char_wb", (2, 4))]
    cells = []
    for analyzer, longest in [("word", (1, 2)), *characters]:
        model = make_pipeline(
            TfidfVectorizer(analyzer=analyzer, ngram_range=longest, sublinear_tf=True),
            LogisticRegression(C=INVERSE_PENALTY, max_iter=1000),
        )
        start = time.process_time()
        model.fit(texts, [label for label, _ in train])
        seconds = time.process_time() - start
        cells.append(f"{(model.predict(asked) == answers).mean():.1%} | {seconds:.1f}")
    return " | ".join(cells)


def read_pairs(name: str, *, num_train: int, num_test: int) -> tuple[Pairs, Pairs]:
    """Return the (class, text) pairs of a set's training and test split."""
    if name in UNSEEN:
        rows = write_texts(UNSEEN[name], num_train=num_train, num_test=num_test)
        return rows[:num_train], rows[num_train:]
    rows = SETS[name]()
    random.Random(0).shuffle(rows)
    return rows[:num_train], rows[num_train:][-num_test:]


def main(arguments: Sequence[str]) -> None:
    """Measure one set after the other, and print a line for each."""
    names = [*UNSEEN, *SETS]
    parser = argparse.ArgumentParser(prog="python -m bench.accuracy few-texts")
    parser.add_argument("--set", action="append", choices=names, help="may be repeated")
    parser.add_argument("--texts", type=int, default=240, help="texts of the training split")
    parser.add_argument("--test", type=int, default=480, help="most texts of the test split")
    asked = parser.parse_args(arguments)
    print("| set | texts | job | CPU s | ONNX MB | words | CPU s | characters | CPU s |")
    print("| -- " * 9 + "|")
    for name in asked.set or names:
        train, test = read_pairs(name, num_train=asked.texts, num_test=asked.test)
        cells = f"{score_job(train, test)} | {score_rivals(train, test)}"
        print(f"| {name} | {len(train)} + {len(test)} | {cells} |", flush=True)
