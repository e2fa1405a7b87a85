"""The pixels that an image classifier takes."""

from dataclasses import replace

from redkiln.datasets import DatasetIndex
from redkiln.tasks.image_classification import ImageClassificationSpec
from worker.process.event_log import EventLog
from worker.tasks.imagery.opening import pixel_format_of
from worker.trainer.images.decode.decoded_set import DecodedImages
from worker.trainer.images.located import LocatedDataset, decode_dataset


def decode_for_model(
    spec: ImageClassificationSpec, located: LocatedDataset[DatasetIndex], *, event_log: EventLog
) -> DecodedImages:
    """Decode the images; a user's graph or `preprocess` gets pixels from 0 to 1."""
    pixel_format = pixel_format_of(spec.model.options)
    decoded = decode_dataset(located, pixel_format, event_log=event_log)
    if spec.model.source != "onnx" and spec.model.preprocess is None:
        return decoded
    none = {"mean": [0.0] * pixel_format.channels, "std": [1.0] * pixel_format.channels}
    return replace(decoded, facts=decoded.facts.model_copy(update=none))
