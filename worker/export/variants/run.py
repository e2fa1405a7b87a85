"""Writes, judges and times the variants that a job asks for, next to its float32 file."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from redkiln.predict.compare import is_finite
from redkiln.predict.session import name_input, open_session
from redkiln.spec.exports import Variant
from worker.export.evaluate import Evaluation
from worker.export.exportable import Exportable
from worker.export.onnx_file import write_onnx
from worker.export.outputs import Outputs
from worker.export.parity import GateResult, compare_outputs, onnx_predict, predict_all
from worker.export.target import Arrays, ExportTarget
from worker.export.variants.advice import recommend
from worker.export.variants.companion import write_companion
from worker.export.variants.convert import write_fp16, write_int8_dynamic
from worker.export.variants.fine_tuned import quantise
from worker.export.variants.graph import (
    list_behind_weights,
    list_weights,
    load_plain,
    save_with_metadata,
    shorten_names,
)
from worker.export.variants.judge import Judge
from worker.export.variants.latency import BATCHES, time_variants
from worker.export.variants.loading import check_loads
from worker.export.variants.picture import draw_variants
from worker.export.variants.providers import run_providers
from worker.export.variants.result import VariantResult, failed
from worker.export.variants.static import Rate, spread, write_int8_static

FILES = {
    "fp32": "model.onnx",
    "fp16": "model-fp16.onnx",
    "int8-dynamic": "model-int8-dynamic.onnx",
    "int8-static": "model-int8-static.onnx",
    "int8-qat": "model-int8-qat.onnx",
}
PICTURE = "variants.png"
CALIBRATION_SAMPLES = 256
CALIBRATION_BATCH = 16
VALIDATION_SAMPLES = 1000
"""Samples that choose the calibration method and the layers in float32."""


@dataclass(frozen=True)
class Variants:
    """All variants of a model, fp32 first, and which one to use; empty without a further one."""

    results: list[VariantResult]
    advice: str

    def extend(self, verdict: GateResult) -> GateResult:
        """Return a verdict on the float32 file with what this closer look at it has missed."""
        if not self.results:
            return verdict
        misses = self.results[0].misses
        return replace(verdict, verified=not misses, misses=misses)


@dataclass(frozen=True)
class VariantWriter:
    """Writes the variants of one model.

    Attributes:
        target: The task's model, samples and scoring.
        evaluation: Torch's outputs and metrics on the test split.
        metadata: Metadata of the ONNX files.
        outputs: The job's files.
        threads: Threads of an operator.
        on_batch: Called after each batch, to report that the export is alive.
        fine_tuned: Tensors of the network that was fine-tuned for int8.
        source: The float32 file that the variants are made of, without embedded preparation.
    """

    target: ExportTarget
    evaluation: Evaluation
    metadata: dict[str, str]
    outputs: Outputs
    threads: int
    on_batch: Callable[[], None]
    fine_tuned: dict[str, torch.Tensor] | None
    source: Path

    def write_all(self, verdict: GateResult) -> Variants:
        """Write the variants of the spec; a failed one is a result without a file.

        Args:
            verdict: The float32 file's own verdict.
        """
        gate = self.target.spec.export
        wanted = [variant for variant in gate.variants if variant.name != "fp32"]
        if not wanted and self.target.companion is None:
            return Variants([], "")
        judge = Judge(self.target, self.evaluation, self.threads, self.on_batch)
        path = self.outputs.path(FILES["fp32"])
        first = judge.judge("fp32", path, max_drop=gate.max_metric_drop, is_known=True)
        misses = verdict.misses or first.misses
        results = [
            first.model_copy(update={"verified": not misses, "misses": misses}),
            *(self._write(variant, judge) for variant in wanted),
        ]
        others = write_companion(self.target, judge, self.outputs)
        if not wanted:
            return Variants([*results, *others], "")
        paths = {one.name: self.outputs.path(one.file) for one in results if one.file}
        times = time_variants(paths, self._samples(), threads=self.threads)
        results = [one.model_copy(update={"latency": times.get(one.name, [])}) for one in results]
        draw_variants(results, self.outputs.path(PICTURE), threads=self.threads)
        self.outputs.add(PICTURE)
        return Variants([*results, *others], recommend(results, threads=self.threads))

    def _write(self, variant: Variant, judge: Judge) -> VariantResult:
        path = self.outputs.path(FILES[variant.name])
        allowed = variant.allowed_drop
        try:
            details = self._convert(variant, self.source, path)
            if self.target.embedding is not None:
                self.target.embedding.apply(path)
            check_loads(path)
            result = judge.judge(variant.name, path, max_drop=allowed)
            others = run_providers(path, self.target, self.evaluation)
        except Exception as error:  # noqa: BLE001 - a model that a converter cannot do is no failure
            path.unlink(missing_ok=True)
            return failed(variant.name, error, max_drop=allowed)
        self.outputs.add(path.name, verified=result.verified)
        return result.model_copy(update={"details": details, "providers": others})

    def _convert(self, variant: Variant, source: Path, path: Path) -> dict[str, Any]:
        model = load_plain(source)
        if not list_weights(model):
            raise ValueError(
                "the model has no layers whose weights can be stored smaller, as a model of "
                "trees or `ngrams`; remove export.variants"
            )
        if variant.name == "int8-qat":
            return self._write_fine_tuned(path)
        if variant.name == "fp16":
            return write_fp16(source, path, metadata=self.metadata, io=variant.io)
        # The choice of answers behind the last layer is more sensitive than any layer.
        kept = () if self.target.exportable.answers is None else list_behind_weights(model)
        if variant.name == "int8-dynamic":
            return write_int8_dynamic(source, path, metadata=self.metadata, kept=kept)
        session = open_session(source, threads=self.threads)
        return write_int8_static(
            source,
            path,
            metadata=self.metadata,
            batches=[name_input(session, batch) for batch in self._read_training()],
            rate=self._rate,
            kept=kept,
            max_drop=variant.allowed_drop,
            on_file=self.on_batch,
        )

    def _write_fine_tuned(self, path: Path) -> dict[str, Any]:
        exportable, gate = self.target.exportable, self.target.spec.export
        if self.fine_tuned is None or not isinstance(exportable, Exportable):
            raise ValueError("the network was not fine-tuned, because the job was finished early")
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".int8-") as folder:
            found = {}
            for ranges, batches in (("fine-tuning", []), ("again", self._read_training())):
                quantised = quantise(exportable, self.fine_tuned, batches=batches)
                one = Path(folder) / f"{ranges}.onnx"
                write_onnx(quantised, one, opset=gate.opset, metadata={})
                found[ranges] = self._rate(one)
            best = min(found, key=lambda ranges: found[ranges])
            model = load_plain(Path(folder) / f"{best}.onnx")
        save_with_metadata(shorten_names(model), path, self.metadata)
        return {
            "training": self.target.spec.training.model_dump(mode="json")["quantize"],
            "ranges": best,
            "validation_drops": {ranges: drop for ranges, (drop, _) in found.items()},
        }

    def _read_training(self) -> list[Arrays]:
        """Return training samples that show the ranges of activations, in batches."""
        rows = spread(self.target.rows["train"], CALIBRATION_SAMPLES)
        samples = self.target.samples
        return [
            samples.feed(samples.get(rows[start : start + CALIBRATION_BATCH]))
            for start in range(0, len(rows), CALIBRATION_BATCH)
        ]

    @cached_property
    def _rate(self) -> Rate:
        """Return what scores a file on the validation split, else on training samples."""
        target = self.target
        known = target.rows["validation"]
        rows = spread(known if len(known) else target.rows["train"], VALIDATION_SAMPLES)
        run = partial(
            predict_all, samples=target.samples, rows=rows, batch_size=64, on_batch=self.on_batch
        )
        answers = target.exportable.answers
        reference = run(onnx_predict(open_session(self.source, threads=self.threads), answers))
        headline, targets = target.scoring.headline, target.targets[rows]
        before = target.scoring.score(reference, targets)[headline]

        def rate(path: Path) -> tuple[float, float]:
            outputs = run(onnx_predict(open_session(path, threads=self.threads), answers))
            if not is_finite(outputs):
                return float("inf"), float("inf")
            after = target.scoring.score(outputs, targets)[headline]
            error = compare_outputs(outputs, reference).mean_abs
            return target.scoring.find_drop(before, after), error

        return rate

    def _samples(self) -> dict[int, dict[str, Any]]:
        rows, samples = self.evaluation.rows, self.target.samples
        return {batch: samples.feed(samples.get(np.resize(rows, batch))) for batch in BATCHES}
