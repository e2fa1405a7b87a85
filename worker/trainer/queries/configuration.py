"""The whole configuration of a detector of transformers: its type, its size, and its images.

A resolved spec contains it, so that an export needs neither the hub nor the library's defaults.
"""

from collections.abc import Mapping
from typing import Any

from redkiln.spec.dense_models import DenseModel
from worker.trainer.dense.library import BACKBONE, find_type, finish_config, merge_config, refused
from worker.trainer.queries.small import SMALL

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
    base = SMALL.get(model_type, {}) if pretrained is None else pretrained
    given, known = merge_config(model, base, model_type=model_type)
    given |= dict.fromkeys(FIXED_SIZES)
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
    return finish_config(model_type, given, known, num_classes=num_classes)


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
        raise refused(message, "/model/options/image_size")
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
    raise refused(message, "/model/options/image_size")
