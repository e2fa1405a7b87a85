"""Sort texts with a model that has its tokenizer inside: `python texts.py model-text.onnx TEXT`."""

import json
import sys

import numpy as np
import onnxruntime
from onnxruntime_extensions import get_library_path

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
session = onnxruntime.InferenceSession(sys.argv[1], options)
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
texts = np.array(sys.argv[2:], dtype=object)
scores, places = session.run(["top_scores", "top_classes"], {"texts": texts})
for text, score, place in zip(texts, scores, places, strict=True):
    print(text, classes[place[0]], f"{score[0]:.3f}")
