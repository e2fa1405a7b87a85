"""Puts the preparation of photos into an exported file, and checks it against Pillow's.

The file then takes uint8 photos of any size, and also returns the most probable classes.

Shapes: B batch, H, W sides of the photos, C channels, S side of the model's input, K classes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
from numpy.typing import NDArray
from PIL import Image

from redkiln.predict.pixels import PixelFormat, to_pixels
from redkiln.predict.session import PHOTOS, open_session
from worker.export.embedding.merge import embed, parse_graph
from worker.tasks.image_classification.resize_graphs import resize_nodes

PREPARED = "prepared"
MOST_LEVELS = 1
"""Largest difference of a resized pixel from Pillow's, in levels of 255."""
SIDES = ((1.0, 1.0), (1.37, 0.61), (2.9, 3.3), (0.7, 5.1), (4.03, 0.97), (7.0, 8.0))
"""Height and width of the photos that are compared, as parts of the model's side."""
DETAIL = 40
"""Largest change of a pixel of these photos, in levels: smooth photos would hide differences."""


@dataclass(frozen=True)
class EmbeddedPhotos:
    """What every ONNX file of a job gets: photos of any size in, classes out.

    Attributes:
        pixel_format: Format of the prepared photos.
        output: Name of the model's output.
        num_classes: K.
        has_labels: Whether the output has probabilities already, because a photo can have several
            labels.
        pictures: (N, S, S, C) uint8 images of the test split, which the comparison enlarges.
    """

    pixel_format: PixelFormat
    output: str
    num_classes: int
    has_labels: bool
    pictures: NDArray[np.uint8]

    def apply(self, path: Path) -> None:
        """Rewrite a finished file so that it takes photos, with its metadata as they are.

        Raises:
            Exception: The file has an operator set older than 18.
        """
        (name,) = (value.name for value in onnx.load(path).graph.input)
        embed(
            path,
            self._build_preparation,
            joins={PREPARED: name},
            output=self.output,
            num_classes=self.num_classes,
            has_labels=self.has_labels,
        )

    def find_misses(self) -> list[str]:
        """Compare the resizing with Pillow's, on photos of several shapes from the test split."""
        model = self._build_preparation(None)
        session = open_session(model.SerializeToString())
        largest = 0
        for picture, (height, width) in zip(self._enlarge(), SIDES, strict=True):
            (prepared,) = session.run([PREPARED], {PHOTOS: picture[np.newaxis]})
            mode = self.pixel_format.mode
            plain = Image.fromarray(picture.squeeze(-1) if mode == "L" else picture)
            expected = to_pixels(plain, self.pixel_format).transpose(2, 0, 1).astype(int)
            levels = np.round(255 * prepared[0]).astype(int)
            largest = max(largest, int(np.abs(levels - expected).max()))
            if largest > MOST_LEVELS:
                miss = (
                    f"pixels of a photo of {height:g} x {width:g} times the model's side differ by "
                    f"{largest} of 255 levels from Pillow's, more than {MOST_LEVELS}"
                )
                return [miss]
        return []

    def _enlarge(self) -> list[NDArray[np.uint8]]:
        """Return photos (H, W, C) in the shapes of SIDES, from the pictures, with fine detail."""
        side, channels = self.pixel_format.size, self.pixel_format.channels
        generator = np.random.default_rng(0)
        photos = []
        for place, (height, width) in enumerate(SIDES):
            picture = self.pictures[place % len(self.pictures)]
            plain = Image.fromarray(picture.squeeze(-1) if channels == 1 else picture)
            size = max(1, round(width * side)), max(1, round(height * side))
            large = np.asarray(plain.resize(size, Image.Resampling.BICUBIC))
            photo = large.reshape(size[1], size[0], channels).astype(np.int64)
            photo += generator.integers(-DETAIL, DETAIL, photo.shape)
            photos.append(photo.clip(0, 255).astype(np.uint8))
        return photos

    def _build_preparation(self, like: onnx.ModelProto | None) -> onnx.ModelProto:
        """Build the graph of photos (B, H, W, C) uint8 to (B, C, S, S) float32 in [0, 1]."""
        size, channels = self.pixel_format.size, self.pixel_format.channels
        graph = f"""prepare (uint8[batch, height, width, {channels}] {PHOTOS})
            => (float[batch, {channels}, {size}, {size}] {PREPARED}) {{
            {resize_nodes(self.pixel_format)}
            levels = Cast <to = 1> (square)
            white = Constant <value_float = 255.0> ()
            shares = Div (levels, white)
            {PREPARED} = Transpose <perm = [0, 3, 1, 2]> (shares)
        }}"""
        model = parse_graph(graph, like=like)
        return onnx.compose.add_prefix(model, "prepare/", rename_inputs=False, rename_outputs=False)
