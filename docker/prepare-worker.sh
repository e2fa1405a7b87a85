#!/bin/sh
# Installs on a base image with torch what the worker needs in addition, without changing torch.
# wanted.txt lists it. `python` is the first on the base's PATH: of a venv, conda or the system.
set -eu
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore

# du counts a folder of a package and that of its shared libraries.
size() { python -c 'import importlib.util as i, os, sys; p = os.path.dirname(i.find_spec(sys.argv[1]).origin); print(p, *filter(os.path.isdir, [p + ".libs"]))' "$1" | xargs du -cm | awk 'END { print $1 }'; }
version() { python -c 'import importlib.metadata as m; print(m.version("torch"))'; }

if grep -q '^timm' wanted.txt && ! python -c 'import torchvision'; then
  echo "timm needs a torchvision that was built for the base image's torch. To build without both, set REDKILN_VISION=no." >&2
  exit 1
fi
before=$(version)
python requirements.py pins > pins.txt
python -m pip install --quiet --dry-run --report report.json -c pins.txt -r wanted.txt
python requirements.py pins report.json > pins.txt
python -m pip install --report report.json -c pins.txt -r wanted.txt
python requirements.py verify report.json
sh trim-arrow.sh python
after=$(version)
[ "$before" = "$after" ] || { echo "The installation changed the base image's torch $before to $after." >&2; exit 1; }
python -c 'import celery, onnx, onnxruntime, onnxscript, skl2onnx, sklearn, torch'
if grep -q '^timm' wanted.txt; then
  python -c 'import timm'
  echo "torchvision takes $(size torchvision) MB, timm $(size timm) MB."
fi
# tinygrad reaches GPUs through the system's Vulkan drivers, or through a driver of OpenCL.
if grep -q '^tinygrad' wanted.txt && ! command -v vulkaninfo; then
  installed() { dpkg-query -Wf '${Installed-Size}\n' | awk '{ kb += $1 } END { print int(kb / 1024) }'; }
  before=$(installed)
  apt-get update
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends mesa-vulkan-drivers vulkan-tools clinfo ${OPENCL_DRIVER:-}
  rm -rf /var/lib/apt/lists/*
  echo "The drivers take $(($(installed) - before)) MB, tinygrad $(size tinygrad) MB, Dawn $(size pydawn) MB."
fi

# Not every base has useradd. Volumes mounted on these folders get the folders' owner.
echo 'redkiln:x:10001:10001::/worker:/usr/sbin/nologin' >> /etc/passwd
echo 'redkiln:x:10001:' >> /etc/group
mkdir -p /app /data /worker/cache /cache/kernels /cache/huggingface /locks
chown 10001:10001 /worker /worker/cache /cache/kernels /cache/huggingface
chmod 1777 /locks  # shared by the workers of all projects on this host
