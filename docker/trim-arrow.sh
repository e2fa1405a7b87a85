#!/bin/sh
# Removes from pyarrow what Redkiln does not use: its tests and headers, and its clients of Flight and S3.
# The first argument is the Python that it is installed for.
set -eu
cd "$("$1" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("pyarrow").origin))')"
rm -rf tests include src libarrow_flight* _flight* libarrow_s3* _s3fs*
cd /  # because pyarrow's folder has a `types` that would hide the standard library's
"$1" -c 'import pyarrow.csv, pyarrow.dataset, pyarrow.json, pyarrow.parquet'
