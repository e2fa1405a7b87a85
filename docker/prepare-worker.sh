#!/bin/sh
# Installs on a base image with torch what the worker needs in addition, without changing torch.
# wanted.txt lists it. `python` is the first on the base's PATH: of a venv, conda or the system.
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
[ "$before" = "$after" ] || { echo "The installation changed the base image's torch $before to $after." >&2; exit 1; }
python -c 'import celery, onnx, onnxruntime, onnxscript, skl2onnx, sklearn, torch'

# Not every base has useradd. Volumes mounted on these folders get the folders' owner.
echo 'redkiln:x:10001:10001::/worker:/usr/sbin/nologin' >> /etc/passwd
echo 'redkiln:x:10001:' >> /etc/group
mkdir -p /app /data /worker/cache /cache/kernels /cache/huggingface /locks
chown 10001:10001 /worker /worker/cache /cache/kernels /cache/huggingface
chmod 1777 /locks  # shared by the workers of all projects on this host
