"""Judges a variant: its outputs and its metric against torch's, on real test samples.

Shapes: N samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from redkiln.predict.compare import wilson
from redkiln.predict.cpu import detect_cpu
from redkiln.predict.session import open_session
from redkiln.predict.verify import BATCHES, FEW
from redkiln.views.comparison import Interval
from worker.export.evaluate import Evaluation
from worker.export.exportable import Predict
from worker.export.parity import compare_outputs, onnx_predict, predict_all
from worker.export.target import ExportTarget
from worker.export.variants.chance import describe_chance, find_doubt
from worker.export.variants.result import VariantResult

MOST_AS_WRITTEN = 2000
"""Test samples that are run without graph optimisation, which is slow."""


@dataclass(frozen=True)
class Judge:
    """Judges files against one evaluation of the trained model.

    Attributes:
        target: The task's samples and scoring.
        evaluation: Torch's outputs and metrics.
        threads: Threads of an operator.
        on_batch: Called after each batch.
    """

    target: ExportTarget
    evaluation: Evaluation
    threads: int
    on_batch: Callable[[], None]

    def judge(
        self, name: str, path: Path, *, max_drop: float, is_known: bool = False
    ) -> VariantResult:
        """Run a file on the test split, optimised for this CPU and as written.

        Args:
            name: Name of the variant.
            path: Its file.
            max_drop: How much worse the metric may be.
            is_known: Whether the evaluation has already run this file optimised.
        """
        scoring, known = self.target.scoring, self.evaluation
        found = [known.onnx[: known.num_test], *known.few] if is_known else self._run(path)
        outputs = np.concatenate(found)
        reference = np.concatenate([known.outputs[: len(some)] for some in found])
        test = slice(0, known.num_test)
        targets = known.targets[test]
        metric = scoring.score(outputs[test], targets)[scoring.headline]
        torch_metric = known.metrics[scoring.headline]
        drop = scoring.find_drop(torch_metric, metric)
        difference = compare_outputs(outputs, reference)
        as_written = self._score_as_written(path)
        result = VariantResult(
            name=name,
            file=path.name,
            metric_name=scoring.headline,
            metric=metric,
            interval=self._find_interval(metric, outputs[test], targets),
            drop=drop,
            drop_as_written=as_written,
            max_metric_drop=max_drop,
            agreement=scoring.find_agreement(outputs, reference),
            max_abs=difference.max_abs,
            size_bytes=path.stat().st_size,
            cpu=detect_cpu(),
        )
        words = scoring.explain_drop(drop)
        if scoring.headline == "accuracy":
            doubt = find_doubt(outputs[test], reference[test], targets)
            words += describe_chance(drop, doubt=doubt, allowed=max_drop, num=known.num_test)
        misses = list_misses(result, words=words)
        return result.model_copy(update={"misses": misses, "verified": not misses})

    def _run(self, path: Path) -> list[np.ndarray]:
        """Return the outputs of the test split, and of a few samples in other batches."""
        num = self.evaluation.num_test
        predict = self._open(path, is_optimized=True)
        few = [self._predict(predict, min(FEW, num), size) for size in BATCHES[1:]]
        return [self._predict(predict, num, BATCHES[0]), *few]

    def _find_interval(
        self, metric: float, outputs: np.ndarray, targets: np.ndarray[Any, Any]
    ) -> Interval | None:
        scoring = self.target.scoring
        if scoring.headline == "accuracy":  # the intervals of its other metrics take seconds
            return wilson(metric, len(targets))
        return scoring.find_intervals(outputs, targets).get(scoring.headline)

    def _score_as_written(self, path: Path) -> float:
        known, scoring = self.evaluation, self.target.scoring
        num = min(known.num_test, MOST_AS_WRITTEN)
        outputs = self._predict(self._open(path, is_optimized=False), num, BATCHES[0])
        targets = known.targets[:num]
        before = scoring.score(known.outputs[:num], targets)[scoring.headline]
        return scoring.find_drop(before, scoring.score(outputs, targets)[scoring.headline])

    def _open(self, path: Path, *, is_optimized: bool) -> Predict:
        session = open_session(path, threads=self.threads, is_optimized=is_optimized)
        return onnx_predict(session, self.target.exportable.answers)

    def _predict(self, predict: Predict, num: int, batch_size: int) -> np.ndarray:
        return predict_all(
            predict,
            self.target.samples,
            self.evaluation.rows[:num],
            batch_size=batch_size,
            on_batch=self.on_batch,
        )


def list_misses(result: VariantResult, *, words: str) -> list[str]:
    """Return what a variant missed, each with its numbers.

    Args:
        result: The measured variant.
        words: Description of its drop, as in `the metric is 0.0060 lower`.
    """
    assert result.drop is not None
    assert result.max_abs is not None
    if not np.isfinite(result.max_abs):
        return ["some outputs are not finite numbers"]
    allowed = result.max_metric_drop
    is_written_right = result.drop_as_written is None or result.drop_as_written <= allowed
    if not result.drop <= allowed:
        why = ""
        if is_written_right:
            kind = ", ".join(result.cpu.get("features", [])) or "unknown features"
            why = (
                "; the file is right: run as written, it gives the right answers. ONNX Runtime's "
                f"optimised graph does not on this CPU ({kind}), for example because int8 sums "
                "saturate"
            )
        return [f"{words}, more than the allowed {allowed:.4f}{why}"]
    if not is_written_right:
        text = (
            f"run as written, the file's metric is worse by {result.drop_as_written:.4f}, more "
            f"than the allowed {allowed:.4f}, so the file gives wrong results on other CPUs"
        )
        return [text]
    return []
