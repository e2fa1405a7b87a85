"""The operators of ONNX that can be trained, as `worker.onnx_module` registers them."""

NEWEST_OPSET = 28
"""Newest operator set that they were written for."""

# fmt: off
OPERATORS: dict[str, int] = {
    "Abs": 1, "Acos": 1, "Acosh": 1, "Add": 1, "AffineGrid": 20, "And": 7, "ArgMax": 1,
    "ArgMin": 1, "Asin": 1, "Asinh": 1, "Atan": 1, "Atanh": 1, "Attention": 23, "AveragePool": 1,
    "BatchNormalization": 1, "Bernoulli": 15, "BitCast": 26, "BitShift": 11, "BitwiseAnd": 7,
    "BitwiseNot": 18, "BitwiseOr": 7, "BitwiseXor": 7, "BlackmanWindow": 17, "Cast": 6,
    "CastLike": 15, "Ceil": 1, "Celu": 12, "CenterCropPad": 18, "Clip": 1, "Col2Im": 18,
    "Compress": 9, "Concat": 4, "ConcatFromSequence": 11, "Constant": 1, "ConstantOfShape": 9,
    "Conv": 1, "ConvInteger": 10, "ConvTranspose": 1, "Cos": 1, "Cosh": 1, "CumProd": 26,
    "CumSum": 11, "DFT": 17, "DepthToSpace": 1, "DequantizeLinear": 10, "Det": 11, "Div": 1,
    "Dropout": 1, "DynamicQuantizeLinear": 11, "Einsum": 12, "Elu": 1, "Equal": 7, "Erf": 1,
    "Exp": 1, "Expand": 8, "EyeLike": 9, "Flatten": 1, "Floor": 1, "GRU": 7, "Gather": 1,
    "GatherElements": 11, "GatherND": 11, "Gelu": 20, "Gemm": 1, "GlobalAveragePool": 1,
    "GlobalLpPool": 2, "GlobalMaxPool": 1, "Greater": 7, "GreaterOrEqual": 7, "GridSample": 16,
    "GroupNormalization": 18, "HammingWindow": 17, "HannWindow": 17, "HardSigmoid": 1,
    "HardSwish": 14, "Hardmax": 1, "Identity": 1, "If": 1, "InstanceNormalization": 1, "IsInf": 10,
    "IsNaN": 9, "LRN": 1, "LSTM": 7, "LayerNormalization": 17, "LeakyRelu": 1, "Less": 7,
    "LessOrEqual": 7, "LinearAttention": 26, "Log": 1, "LogSoftmax": 1, "Loop": 1,
    "LpNormalization": 1, "LpPool": 2, "MatMul": 1, "MatMulInteger": 10, "Max": 1, "MaxPool": 1,
    "MaxUnpool": 9, "Mean": 1, "MeanVarianceNormalization": 9, "Min": 1, "Mish": 18, "Mod": 10,
    "Mul": 1, "Neg": 1, "NegativeLogLikelihoodLoss": 12, "NonZero": 9, "Not": 1, "OneHot": 9,
    "Optional": 15, "OptionalGetElement": 15, "OptionalHasElement": 15, "Or": 7, "PRelu": 1,
    "Pad": 2, "Pow": 1, "QLinearConv": 10, "QLinearMatMul": 10, "QuantizeLinear": 10,
    "RMSNormalization": 23, "RNN": 7, "RandomNormal": 1, "RandomNormalLike": 1, "RandomUniform": 1,
    "RandomUniformLike": 1, "Range": 11, "Reciprocal": 1, "ReduceL1": 1, "ReduceL2": 1,
    "ReduceLogSum": 1, "ReduceLogSumExp": 1, "ReduceMax": 1, "ReduceMean": 1, "ReduceMin": 1,
    "ReduceProd": 1, "ReduceSum": 1, "ReduceSumSquare": 1, "Relu": 1, "Reshape": 5, "Resize": 10,
    "ReverseSequence": 10, "RotaryEmbedding": 23, "Round": 1, "STFT": 17, "Scan": 9, "Scatter": 9,
    "ScatterElements": 11, "ScatterND": 11, "Selu": 1, "SequenceAt": 11, "SequenceConstruct": 11,
    "SequenceEmpty": 11, "SequenceErase": 11, "SequenceInsert": 11, "SequenceLength": 11,
    "SequenceMap": 17, "Shape": 1, "Shrink": 9, "Sigmoid": 1, "Sign": 1, "Sin": 1, "Sinh": 1,
    "Size": 1, "Slice": 1, "Softmax": 1, "SoftmaxCrossEntropyLoss": 12, "Softplus": 1,
    "Softsign": 1, "SpaceToDepth": 1, "Split": 2, "SplitToSequence": 11, "Sqrt": 1, "Squeeze": 1,
    "Sub": 1, "Sum": 1, "SwiGLU": 26, "Swish": 24, "Tan": 1, "Tanh": 1, "TensorScatter": 24,
    "ThresholdedRelu": 10, "Tile": 6, "TopK": 1, "Transpose": 1, "Trilu": 14, "Unique": 11,
    "Unsqueeze": 1, "Upsample": 9, "Where": 9, "Xor": 7,
}
# fmt: on
"""Each operator with the oldest operator set whose form of it is supported."""
