"""What a job must leave to the engine `tinygrad`, which is not torch."""

from redkiln.spec.job_spec import JobSpec, TrainingSpec
from redkiln.spec.problems import SpecProblem


def find_engine_problem(spec: JobSpec) -> SpecProblem | None:
    """Return why a spec cannot have its engine; None if it can."""
    resources = spec.resources
    if resources.engine != "tinygrad":
        return None
    if (problem := spec.find_engine_problem()) is not None:
        return problem
    assert isinstance(spec, TrainingSpec)
    if resources.gpus > 1 or resources.device == "gpu" or resources.arch:
        field = "gpus" if resources.gpus > 1 else "arch" if resources.arch else "device"
        message = f"tinygrad chooses its own device; remove {field} from resources"
        return SpecProblem(f"/resources/{field}", "engine_unsupported", message)
    if spec.training.precision in ("fp16", "bf16"):
        message = "tinygrad trains in fp32; remove precision, or set engine to torch"
        return SpecProblem("/training/precision", "engine_unsupported", message)
    if spec.training.compile == "default":
        message = "torch.compile does not apply to tinygrad; remove compile, or set engine to torch"
        return SpecProblem("/training/compile", "engine_unsupported", message)
    if any(variant.name == "int8-qat" for variant in spec.export.variants):
        message = "int8-qat is trained with torch; remove it, or set engine to torch"
        return SpecProblem("/export/variants", "engine_unsupported", message)
    return None
