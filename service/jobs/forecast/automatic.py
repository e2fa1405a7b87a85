"""Foresees what `model: auto` will be, as far as the data decide it without a device."""

from redkiln.spec.image_models import Choice, choose_by_data
from redkiln.spec.job_spec import TrainingSpec
from redkiln.tasks.image_classification import ImageClassificationSpec
from service.datasets.inspect.report import GREY_MODES, OTHER_SIZES
from service.datasets.models import Dataset
from service.jobs.fitting import count_train


def foresee_model(spec: TrainingSpec, dataset: Dataset | None) -> Choice | None:
    """Return the network that a job on images will get.

    Returns:
        None if the model is named or comes from elsewhere, if the data set is not counted yet, or
        if the worker must measure its device first.
    """
    if not isinstance(spec, ImageClassificationSpec) or dataset is None:
        return None
    model = spec.model
    if (model.source, model.name, model.pretrained) != ("builtin", "auto", None):
        return None
    modes = dataset.report.get("image_modes", {})
    sizes = dict(dataset.report.get("image_sizes", {}))
    sizes.pop(OTHER_SIZES, None)
    if not sizes or not modes:
        return None
    usual = max(sizes, key=lambda size: sizes[size])
    size, channels = model.options.image_size, model.options.channels
    return choose_by_data(
        spec.quality,
        size=max(int(side) for side in usual.split("x")) if size == "auto" else size,
        channels=(1 if GREY_MODES.issuperset(modes) else 3) if channels == "auto" else channels,
        num_train=count_train(dataset, validation_fraction=spec.training.validation_fraction),
    )
