"""The whole configuration of a detector of transformers: its type, its size, and its images.

A resolved spec contains it, so that an export needs neither the hub nor the library's defaults.
"""

from collections.abc import Mapping
from typing import Any

from redkiln.failure import FailureCode
from redkiln.nearest import suggest
from redkiln.spec.image_models import DenseModel
from worker.process.failed import TrainingFailed
from worker.trainer.models.from_transformers import NOT_ARCHITECTURE
from worker.trainer.queries.small import SMALL

BACKBONE = "backbone_config"
QUERIES = "num_queries"
FIXED_SIZES = ("anchor_image_size", "eval_size")
"""Fields with the only size that a network of that configuration takes."""


def complete_config(
    model: DenseModel, pretrained: Mapping[str, Any] | None, *, num_classes: int
) -> dict[str, Any]:
    """Return a model's whole configuration for these images and classes.

    Args:
        model: Model with its sizes resolved; its `config` holds changes, or all of it.
        pretrained: Configuration that belongs to the pretrained weights; None without any.
        num_classes: Number of classes.

    Raises:
        TrainingFailed: the type or a field is unknown, or the images do not suit the model.
    """
    options = model.options
    assert options.image_size != "auto"
    assert options.channels != "auto"
    model_type = find_type(model, pretrained)
    _check_fields(model_type, model.config)
    given = _merge(SMALL.get(model_type, {}) if pretrained is None else pretrained, model.config)
    given |= dict.fromkeys(FIXED_SIZES)
    known = load_config(model_type, {}, num_classes=num_classes).to_dict()
    backbone = {"model_type": known[BACKBONE]["model_type"], **(given.get(BACKBONE) or {})}
    backbone["num_channels"] = options.channels
    if "stem_channels" in backbone:
        backbone["stem_channels"] = [options.channels, *backbone["stem_channels"][1:]]
    if pretrained is None:
        # Frozen statistics of random weights would be wrong.
        given.setdefault("freeze_backbone_batch_norms", False)
        if "patch_size" in backbone:
            backbone["image_size"] = options.image_size
    given[BACKBONE] = backbone
    _check_patches(backbone, image_size=options.image_size)
    places = _count_places(given, backbone, image_size=options.image_size)
    _fit_queries(given, model_type, places, is_pretrained=pretrained is not None)
    given = {name: value for name, value in given.items() if name in known}
    config = load_config(model_type, given, num_classes=num_classes)
    return _without_names(config.to_dict())


def load_config(model_type: str, fields: Mapping[str, Any], *, num_classes: int) -> Any:
    """Return the library's configuration of some fields.

    Raises:
        TrainingFailed: a value is not valid.
    """
    from transformers import CONFIG_MAPPING

    try:
        return CONFIG_MAPPING[model_type].from_dict({**fields, "num_labels": num_classes})
    # Its validation errors have only this class in common.
    except Exception as error:
        message = f"the configuration of {model_type} is not valid: {error}"
        raise _refused(message, "/model/config") from error


def find_type(model: DenseModel, pretrained: Mapping[str, Any] | None) -> str:
    """Return the type of a model, as the library names it.

    Raises:
        TrainingFailed: the pretrained weights are of another type.
    """
    if pretrained is None:
        return str(model.name)
    model_type = str(pretrained.get("model_type"))
    if model_type not in model.library:
        message = (
            f"{model.pretrained} is a {model_type}; this task trains models of the types "
            f"{', '.join(model.library)}"
        )
        raise _refused(message, "/model/pretrained")
    if model.name not in ("auto", model_type):
        message = (
            f"the pretrained weights are of a {model_type}, not of a {model.name}; set model.name "
            f"to {model_type}"
        )
        raise _refused(message, "/model/name")
    return model_type


def _check_fields(model_type: str, config: Mapping[str, Any]) -> None:
    known = load_config(model_type, {}, num_classes=1).to_dict()
    for name in config:
        if name not in known:
            message = f"{model_type} has no field {name!r}{suggest(name, known)}"
            raise _refused(message, f"/model/config/{name}")


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with changes; a changed backbone of the same type keeps its other fields."""
    merged = {**base, **changes}
    ours, theirs = changes.get(BACKBONE), base.get(BACKBONE)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        kind = ours.get("model_type", theirs.get("model_type"))
        merged[BACKBONE] = {**theirs, **ours} if kind == theirs.get("model_type") else ours
    return merged


def _count_places(
    config: Mapping[str, Any], backbone: Mapping[str, Any], *, image_size: int
) -> int:
    """Return how many places of an image can become queries."""
    patch = backbone.get("patch_size")
    if isinstance(patch, int):
        return (image_size // patch) ** 2
    return sum(
        (image_size // int(stride)) ** 2 for stride in config.get("feat_strides", (8, 16, 32))
    )


def _fit_queries(
    config: dict[str, Any], model_type: str, places: int, *, is_pretrained: bool
) -> None:
    """Limit the queries to the places of an image, as far as the weights allow it."""
    wanted = int(config.get(QUERIES, 300))
    if wanted <= places:
        return
    # Only RF-DETR has a weight for each query.
    if is_pretrained and model_type == "rf_detr":
        message = (
            f"the weights have {wanted} queries, and an image has only {places} places; raise "
            "model.options.image_size"
        )
        raise _refused(message, "/model/options/image_size")
    config[QUERIES] = places


def _check_patches(backbone: Mapping[str, Any], *, image_size: int) -> None:
    patch, windows = backbone.get("patch_size"), backbone.get("num_windows", 1)
    if not isinstance(patch, int) or image_size % (patch * windows) == 0:
        return
    step = patch * windows
    fitting = [size for size in range(64, 1281, 32) if size % step == 0]
    message = (
        f"images of {image_size} pixels do not divide into {windows} windows of patches of {patch} "
        f"pixels; set model.options.image_size to one of {', '.join(map(str, fitting))}"
    )
    raise _refused(message, "/model/options/image_size")


def _without_names(config: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in config.items() if name not in NOT_ARCHITECTURE}
    if isinstance(kept.get(BACKBONE), dict):
        kept[BACKBONE] = _without_names(kept[BACKBONE])
    return kept


def _refused(message: str, pointer: str) -> TrainingFailed:
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)
