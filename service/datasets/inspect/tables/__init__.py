"""Reads tables: CSV, TSV, JSON lines and Parquet, alone or as train and test files.

`find.py` says which files of a source are tables, `plain.py` brings each to plain UTF-8, the
readers (`delimited.py`, `json_lines.py`, `parquet.py`) make columns of them whose rows can still be
named, `profile.py` looks at each column, `roles.py` chooses target, task and types, `judge.py`
decides, and `index_file.py` writes what workers read.
"""
