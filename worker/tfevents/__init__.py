"""TensorBoard's event files: the agent writes them, and a script's supervisor reads them.

`records.py` frames records, `wire.py` encodes and decodes protobuf fields, `scalars.py` knows the
messages, and `event_file.py` is a growing file. No library is used: TensorBoard's messages
need protobuf and numpy, whose import takes 0.5 to 2 s, and neither process has them.
"""
