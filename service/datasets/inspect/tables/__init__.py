"""Reads tables: CSV, TSV, JSON lines and Parquet, alone or as train and test files.

`find.py` finds the tables among the files, `plain.py` converts each to plain UTF-8, the readers
(`delimited.py`, `json_lines.py`, `parquet.py`) turn them into columns and remember each row's place
in its file, `profile.py` examines each column, `roles.py` chooses target, task and types,
`judge.py` decides, and `index_file.py` writes the index for the workers.
"""
