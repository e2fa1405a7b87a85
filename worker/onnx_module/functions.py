"""Operators that ONNX defines by other operators; these definitions are what runs."""

FUNCTIONS: dict[tuple[str, str], int] = {
    ("", "AffineGrid"): 20,
    ("", "Attention"): 23,
    ("", "BlackmanWindow"): 17,
    ("", "Celu"): 12,
    ("", "CenterCropPad"): 18,
    ("", "DynamicQuantizeLinear"): 11,
    ("", "GroupNormalization"): 18,
    ("", "HammingWindow"): 17,
    ("", "HannWindow"): 17,
    ("", "HardSwish"): 14,
    ("", "LinearAttention"): 26,
    ("", "MeanVarianceNormalization"): 9,
    ("", "Mish"): 18,
    ("", "NegativeLogLikelihoodLoss"): 12,
    ("", "RMSNormalization"): 23,
    ("", "RotaryEmbedding"): 23,
    ("", "Shrink"): 9,
    ("", "SoftmaxCrossEntropyLoss"): 12,
    ("", "SwiGLU"): 26,
    ("", "Swish"): 24,
    ("", "ThresholdedRelu"): 10,
}
"""The oldest supported version of each, by domain and name."""
