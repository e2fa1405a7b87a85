"""Find objects with a downloaded detector: `python detect.py model.onnx photo.jpg ...`."""

import json
import os
import sys

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # before the import

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

options = onnxruntime.SessionOptions()
options.log_severity_level = 3  # it warns that the input `threshold` has a default
session = onnxruntime.InferenceSession(sys.argv[1], options)
metadata = session.get_modelmeta().custom_metadata_map
classes, facts = json.loads(metadata["classes"]), json.loads(metadata["preprocessing"])
side, mode = facts["size"], "L" if facts["channel_order"] == "grey" else "RGB"

for path in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(path)).convert(mode)
    width, height = image.size
    inner, corner = (side, side), (0, 0)
    if facts["resize"] == "pad":  # the image is in the middle of the square
        inner = [max(1, round(one / max(image.size) * side)) for one in image.size]
        corner = [round((side - one) / 2) for one in inner]
    square = Image.new(mode, (side, side))
    square.paste(image.resize(inner, Image.Resampling.BILINEAR), tuple(corner))
    pixels = np.asarray(square, dtype=np.float32).reshape(side, side, -1).transpose(2, 0, 1) / 255
    boxes, scores, labels = session.run(None, {"images": pixels[np.newaxis]})
    scale = [inner[0] / width, inner[1] / height] * 2
    for box, score, label in zip(boxes[0], scores[0], labels[0], strict=True):
        if label >= 0:
            ends = ((box - [*corner, *corner]) / scale).round(1).tolist()
            print(path, classes[label], f"{score:.3f}", *ends)
