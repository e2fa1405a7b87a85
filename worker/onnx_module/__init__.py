"""ONNX graphs as networks of torch: reads a file, runs its operators, and writes its weights back.

It knows neither jobs nor tasks. `read.py` reads a file into a `Graph`, `run.py` runs one, the
folder `operators/` has one small file for each family of operators, `module.py` is the network, and
`write.py` puts trained weights back into the same file.
"""
