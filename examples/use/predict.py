"""Sort photos with a downloaded image model: `python predict.py model.onnx photo.jpg ...`."""

import json
import os
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
metadata = session.get_modelmeta().custom_metadata_map
classes, facts = json.loads(metadata["classes"]), json.loads(metadata["preprocessing"])
size, mode = (facts["size"],) * 2, "L" if facts["channel_order"] == "grey" else "RGB"
resize = {"stretch": Image.Image.resize, "crop": ImageOps.fit, "pad": ImageOps.pad}

for path in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert(mode)
    image = resize[facts["resize"]](image, size, Image.Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.float32).reshape(*size, -1).transpose(2, 0, 1) / 255
    (logits,) = session.run(["logits"], {"images": pixels[np.newaxis]})
    odds = np.exp(logits[0] - logits[0].max())
    print(path, classes[odds.argmax()], f"{odds.max() / odds.sum():.3f}")
