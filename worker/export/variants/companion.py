"""Writes and judges the file that takes raw inputs next to `model.onnx`, such as texts."""

from dataclasses import replace

from worker.export.outputs import Outputs
from worker.export.target import ExportTarget
from worker.export.variants.judge import Judge
from worker.export.variants.result import VariantResult, failed


def write_companion(target: ExportTarget, judge: Judge, outputs: Outputs) -> list[VariantResult]:
    """Write the file if the task has one; a failure is a result without a file.

    It is held to the limits of `model.onnx`, in its outputs, too.
    """
    companion, gate = target.companion, target.spec.export
    if companion is None:
        return []
    path = outputs.path(f"model-{companion.name}.onnx")
    try:
        details = companion.write(outputs.path("model.onnx"), path)
        rows = judge.evaluation.rows[: judge.evaluation.num_test]
        samples = companion.open_samples(rows)
        own = replace(judge, target=replace(target, samples=samples))
        result = own.judge(companion.name, path, max_drop=gate.max_metric_drop)
        misses = [*result.misses, *_compare(result, judge, gate.tolerance)]
        misses += companion.find_misses(rows)
    except Exception as error:  # noqa: BLE001 - model.onnx is whole without it
        path.unlink(missing_ok=True)
        return [failed(companion.name, error, max_drop=gate.max_metric_drop)]
    details = {**details, "tolerance": gate.tolerance}
    outputs.add(path.name, verified=not misses)
    found = {"details": details, "misses": misses, "verified": not misses}
    return [result.model_copy(update=found)]


def _compare(result: VariantResult, judge: Judge, tolerance: float) -> list[str]:
    largest = float(abs(judge.evaluation.outputs).max())
    assert result.max_abs is not None
    relative = result.max_abs / max(largest, 1e-12)
    if relative <= tolerance:
        return []
    text = (
        f"outputs differ by up to {relative:.2e} of the largest output, more than tolerance "
        f"{tolerance:.2e}"
    )
    return [text]
