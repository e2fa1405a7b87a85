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
    image = ImageOps.exif_transpose(Image.open(path))
    if image.mode.startswith("I"):  # 16-bit grey
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:  # over black
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "black"), layer)
    image = resize[facts["resize"]](image.convert(mode), size, Image.Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.float32).reshape(*size, -1).transpose(2, 0, 1) / 255
    (scores,) = session.run([facts["output"]], {facts["input"]: pixels[np.newaxis]})
    if "thresholds" in metadata:  # probabilities: an image can have several labels
        places = np.flatnonzero(scores[0] >= json.loads(metadata["thresholds"]))
        found = [f"{classes[place]} {scores[0][place]:.3f}" for place in places]
        print(path, ", ".join(found) or "no label")
    else:  # logits
        odds = np.exp(scores[0] - scores[0].max())
        print(path, classes[odds.argmax()], f"{odds.max() / odds.sum():.3f}")
