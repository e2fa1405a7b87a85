"""Decodes one sample of a data set into planes, or reports what is wrong with it."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel

from redkiln.datasets import ImageFile
from redkiln.failure import FailureCode
from redkiln.predict.pixels import PixelFormat, to_pixels
from worker.process.failed import TrainingFailed
from worker.trainer.images.sources.sources import BadSampleError, Source


class SampleProblem(BaseModel):
    """A sample that cannot be used.

    Attributes:
        is_gone: Whether its file is missing; otherwise its content is unusable.
    """

    path: str
    reason: str
    is_gone: bool

    def to_error(self) -> TrainingFailed:
        """Return the failure that this sample ends a job with."""
        code = FailureCode.DATASET_UNAVAILABLE if self.is_gone else FailureCode.BAD_INPUT
        message = f"{self.path} in the data set cannot be read: {self.reason}"
        return TrainingFailed(code, message, path=self.path)


def decode_sample(
    sample: ImageFile, source: Source, planes: NDArray[np.uint8], pixel_format: PixelFormat
) -> SampleProblem | None:
    """Decode one sample into `planes`, (C, S, S) uint8.

    Returns:
        The problem with the sample, or None.
    """
    try:
        planes[:] = to_pixels(source.open_image(sample), pixel_format).transpose(2, 0, 1)
    except BadSampleError as error:
        return SampleProblem(path=error.path, reason=error.reason, is_gone=error.is_gone)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        # Pillow raises SyntaxError for some broken PNGs.
        return SampleProblem(path=sample.path, reason=f"{error}", is_gone=False)
    return None
