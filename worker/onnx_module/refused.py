"""Why an ONNX file cannot be trained."""


class OnnxRefused(ValueError):  # noqa: N818 - named for what happened
    """A file, or one of its nodes, is not supported; the text names it and says what to do."""
