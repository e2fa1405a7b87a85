import json

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from worker.export.card import usage_code
from worker.trainer.pixels import PixelFormat, to_pixels

SIDE = 8


class Session:
    """Stands for the model: keeps what it is given."""

    def __init__(self, _path):
        self.images = None

    def get_modelmeta(self):
        return self

    @property
    def custom_metadata_map(self):
        return {"classes": json.dumps(["a", "b"])}

    def run(self, _outputs, inputs):
        self.images = inputs["images"]
        return (np.array([[0.0, 1.0]]),)


@pytest.fixture
def files(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 40, 4), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "transparent.png")
    deep = noise[..., 0].astype(np.uint16) * 256 + 7
    Image.fromarray(deep).save(tmp_path / "deep.png")
    Image.fromarray(noise[..., :3]).quantize(16).save(tmp_path / "palette.png")
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by a quarter
    Image.fromarray(noise[..., :3]).save(tmp_path / "phone.png", exif=exif)
    return sorted(tmp_path.iterdir())


@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("channels", [1, 3])
def test_the_printed_snippet_sees_what_training_saw(files, monkeypatch, resize, channels):
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    options = {"image_size": SIDE, "channels": channels, "resize": resize}
    names = {}
    exec(usage_code(options).strip("`").removeprefix("python"), names)
    for path in files:
        assert names["predict"](path) == "b"
        seen = names["session"].images[0].transpose(1, 2, 0) * 255
        with Image.open(path) as image:
            trained = to_pixels(image, PixelFormat(size=SIDE, channels=channels, resize=resize))
        assert np.abs(seen - trained).max() < 0.01, path.name
