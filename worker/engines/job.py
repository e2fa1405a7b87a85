"""A job whose passes another engine than torch runs (`resources.engine`)."""

from redkiln.spec.job_spec import TrainingSpec
from redkiln.status import Phase
from worker.engines.first_steps import compare_first_steps
from worker.engines.network import EngineNetwork
from worker.process.event_log import EventLog
from worker.trainer.autotune.batch_size import reference_batch_size
from worker.trainer.inputs import Batch, split_inputs
from worker.trainer.setup import TrainingSetup


def uses_engine(spec: TrainingSpec) -> bool:
    """Return whether a job trains with another engine than torch."""
    return spec.resources.engine == "tinygrad"


def choose_batch(spec: TrainingSpec, *, num_train: int) -> None:
    """Set the batch size that `auto` stands for: measuring would compile each candidate."""
    if uses_engine(spec) and spec.training.batch_size == "auto":
        spec.training.batch_size = min(reference_batch_size(num_train), num_train)


def step_size(spec: TrainingSpec) -> int:
    """Return how many samples a micro step has, at least 2: kernels are compiled for them."""
    assert isinstance(spec.training.batch_size, int)
    return max(spec.training.batch_size // spec.training.accumulation, 2)


def compile_engine(setup: TrainingSetup, engine: EngineNetwork, event_log: EventLog) -> None:
    """Compile an engine's kernels by comparing its first steps with torch.

    Raises:
        TrainingFailed: It computes something else than torch.
    """
    event_log.enter(Phase.COMPILING)
    facts = engine.engine
    event_log.message(f"{facts.name} compiles kernels for {facts.device_name}")
    found = compare_first_steps(engine, lambda place: _take(setup, place), setup.loss)
    event_log.message(
        f"first steps agree with torch: losses within {found.loss:.1e}, gradients within "
        f"{found.gradient:.1e} ({found.name}); the kernels took {found.seconds:.1f} s"
    )
    event_log.enter(Phase.PREPARING)


def describe_engine(engine: EngineNetwork | None) -> dict[str, str]:
    """Return the engine and its device for the environment; empty with torch."""
    if engine is None:
        return {}
    return {"engine": engine.engine.name, "engine_device": engine.engine.device_name}


def _take(setup: TrainingSetup, place: int) -> Batch:
    """Return the first micro step of a batch."""
    steps, parts = setup.plan.steps_per_epoch, setup.spec.training.accumulation
    inputs, targets = setup.batches.get(place // steps, place % steps)
    return split_inputs(inputs, parts)[0], targets.tensor_split(parts)[0]
