"""An image classifier whose passes another engine than torch runs."""

import torch
from torch import nn

from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.engines.job import step_size, uses_engine
from worker.engines.network import EngineNetwork
from worker.engines.opening import open_engine
from worker.jobdir import Order


def leave_unmeasured(spec: ImageClassificationSpec) -> ImageClassificationSpec:
    """Return the spec with what torch would measure or choose for its own device set."""
    if not uses_engine(spec):
        return spec
    fixed = spec.model_copy(deep=True)
    training = fixed.training
    training.precision, training.compile, training.memory_format = "fp32", "off", "contiguous"
    training.gradient_checkpointing = "off"
    return fixed


def find_engine(
    spec: ImageClassificationSpec, network: nn.Module, order: Order
) -> EngineNetwork | None:
    """Return the network as the job's engine runs it; None with torch.

    Raises:
        TrainingFailed: The engine has no device here, or cannot run the network.
    """
    if not uses_engine(spec):
        return None
    options = spec.model.options
    assert isinstance(options.image_size, int)
    assert isinstance(options.channels, int)
    example = torch.rand(step_size(spec), options.channels, options.image_size, options.image_size)
    return open_engine(
        network, (example,), cache_dir=order.paths.cache_dir, device=order.engine_device
    )
