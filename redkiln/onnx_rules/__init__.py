"""Which ONNX files can be trained: rules that the service and the worker share."""
