"""Sort photos with a model that resizes them itself: `python photos.py model.onnx photo.jpg`."""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
for path in sys.argv[2:]:
    photo = np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB"))
    scores, places = session.run(["top_scores", "top_classes"], {"photos": photo[np.newaxis]})
    print(path, classes[places[0][0]], f"{scores[0][0]:.3f}")
