#!/bin/sh
# Adds to a base image with torch what the worker needs beside it, and holds torch as it is.
# wanted.txt lists it; `python` is whichever is first on the base's PATH: a venv's, conda's or the system's.
set -eu
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore

version() { python -c 'import importlib.metadata as m; print(m.version("torch"))'; }

before=$(version)
python requirements.py pins > pins.txt
python -m pip install --quiet --dry-run --report report.json -c pins.txt -r wanted.txt
python requirements.py pins report.json > pins.txt
python -m pip install -c pins.txt -r wanted.txt
sh trim-arrow.sh python
after=$(version)
[ "$before" = "$after" ] || { echo "the base's torch $before became $after" >&2; exit 1; }
python -c 'import celery, onnx, onnxruntime, onnxscript, sklearn, torch'

# Not every base has useradd. The folders' owner becomes the owner of volumes mounted there.
echo 'redkiln:x:10001:10001::/worker:/usr/sbin/nologin' >> /etc/passwd
echo 'redkiln:x:10001:' >> /etc/group
mkdir -p /app /data /worker/cache /cache/kernels /cache/huggingface /locks
chown 10001:10001 /worker /worker/cache /cache/kernels /cache/huggingface
chmod 1777 /locks  # shared by the workers of all projects on this host
