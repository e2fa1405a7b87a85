# The worker. Build from the repository's root.
#   docker build -f docker/worker.Dockerfile .                  on AMD's image for all architectures
#   docker build -f docker/worker.Dockerfile --target slim .    on Ubuntu, with torch for one
# EXTRAS names optional parts of pyproject.toml to install, such as mlflow. VISION=no leaves out timm
# and torchvision.
# docs/decisions/0006-base-images.md explains the choice of base images.
ARG BASE_IMAGE=rocm/pytorch:rocm10.0_ubuntu24.04_py3.11_pytorch_release_2.13.0
ARG SLIM_BASE_IMAGE=ubuntu:24.04

# ---- what every worker contains; from scratch, so that a change only rebuilds copies -----------
FROM scratch AS code
COPY --chmod=755 docker/redkiln /usr/local/bin/redkiln
COPY LICENSE /app/
COPY redkiln /app/redkiln
COPY docker/*.py /app/docker/
COPY worker /app/worker

# ---- slim: torch for one architecture, or for the CPU ----------------------------------------
# ROCm's wheels need libatomic and libquadmath of the system (ROCm/TheRock#7348). torch.compile needs
# a C++ compiler on a CPU; on a GPU, Triton needs a C compiler and Python's headers.
FROM ${SLIM_BASE_IMAGE} AS slim-base
RUN python3 -c 'import ensurepip, venv' 2>/dev/null && command -v g++ \
 || { size() { dpkg-query -Wf '${Installed-Size}\n' | awk '{ kb += $1 } END { print int(kb / 1024) }'; } \
      && add() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } \
      && apt-get update \
      && add ca-certificates libatomic1 libgomp1 libquadmath0 python3 python3-venv \
      && before=$(size) && add g++ python3-dev \
      && echo "The compiler adds $(($(size) - before)) MB." \
      && rm -rf /var/lib/apt/lists/*; }

# Copied from a stage, a file invalidates the layers after it only if its own text changes.
FROM slim-base AS slim-plan
WORKDIR /plan
COPY pyproject.toml constraints.txt docker/hashes.txt docker/requirements.py ./
ARG EXTRAS=
ARG VISION=yes
# A build (2.13.0+rocm10.0.0) pins ROCm too. Without one the index decides, which may have a newer.
ARG TORCH_BUILD=
ARG TORCHVISION_BUILD=
RUN grep '^torch==' constraints.txt > torch.txt \
 && { [ -z "$TORCH_BUILD" ] || echo "torch==$TORCH_BUILD" > torch.txt; } \
 && { [ "$VISION" = no ] || echo "torchvision${TORCHVISION_BUILD:+==$TORCHVISION_BUILD}" >> torch.txt; } \
 && python3 requirements.py general > general.txt \
 && python3 requirements.py wanted worker $([ "$VISION" = no ] || echo vision) ${EXTRAS} > wanted.txt

FROM slim-base AS slim-torch
# An arch (gfx1100) adds AMD's device wheels for it; TORCH_INDEX must be an index that has them.
ARG ARCH=
ARG TORCH_INDEX=
ARG TORCH_INDEX_TRUSTED=
COPY --from=slim-plan /plan/torch.txt /plan/general.txt /tmp/
# torch and ROCm come from TORCH_INDEX alone, because a second index may offer another build. What is
# not built for ROCm comes first, from the package index, in the versions of CI.
RUN --mount=type=cache,target=/root/.cache/pip \
    python3 -m venv /opt/redkiln \
 && install() { /opt/redkiln/bin/python -m pip --disable-pip-version-check install "$@"; } \
 && install --upgrade --require-hashes --no-deps -r /tmp/general.txt \
 && sed -i "s/^\(torch[a-z]*\)/\1${ARCH:+[device-$ARCH]}/" /tmp/torch.txt \
 && install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
      ${TORCH_INDEX_TRUSTED:+--trusted-host "$TORCH_INDEX_TRUSTED"} -r /tmp/torch.txt \
 && case "$TORCH_INDEX:$(/opt/redkiln/bin/python -c 'import torch; print(torch.__version__)')" in \
      :* | *+*) ;; \
      *) echo "torch did not come from $TORCH_INDEX" >&2; exit 1 ;; \
    esac
ENV PATH=/opt/redkiln/bin:$PATH VIRTUAL_ENV=/opt/redkiln LANG=C.UTF-8

FROM slim-torch AS slim
WORKDIR /build
# Package with a driver of OpenCL, for the extra vulkan.
ARG OPENCL_DRIVER=
COPY constraints*.txt docker/hashes.txt docker/requirements.py docker/prepare-worker.sh docker/trim-arrow.sh ./
COPY --from=slim-plan /plan/wanted.txt ./
RUN --mount=type=cache,target=/root/.cache/pip sh prepare-worker.sh && rm -r /build
# Not further up, because a change of a known argument repeats every RUN after it.
ARG SLIM_BASE_IMAGE
ARG VERSION=local
LABEL org.opencontainers.image.title="Redkiln worker, slim" \
      org.opencontainers.image.description="Train models on AMD GPUs over HTTP and get verified ONNX back: the worker for one GPU arch" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.base.name="${SLIM_BASE_IMAGE}"
COPY --from=code / /
ENV PYTHONPATH=/app PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 HOME=/worker \
    HF_HOME=/cache/huggingface ORT_DISABLE_TELEMETRY=1 \
    REDKILN_WORKER_DIR=/worker REDKILN_KERNEL_CACHE_DIR=/cache/kernels REDKILN_LOCK_DIR=/locks
RUN python -m compileall -q /app
WORKDIR /worker
HEALTHCHECK --interval=30s --timeout=10s --start-period=300s --start-interval=2s --retries=3 \
    CMD ["python", "-m", "docker.health", "worker"]
# Starts as root to read the group ids of the GPU's nodes, and drops root before anything else runs.
ENTRYPOINT ["python", "-m", "docker.worker"]
CMD ["python", "-m", "worker"]

# ---- AMD's image: ROCm, and torch for all architectures --------------------------------------
FROM ${BASE_IMAGE} AS plan
WORKDIR /plan
COPY pyproject.toml docker/requirements.py ./
ARG EXTRAS=
ARG VISION=yes
RUN python requirements.py wanted worker $([ "$VISION" = no ] || echo vision) ${EXTRAS} > wanted.txt

FROM ${BASE_IMAGE} AS worker
WORKDIR /build
COPY constraints*.txt docker/hashes.txt docker/requirements.py docker/prepare-worker.sh docker/trim-arrow.sh ./
COPY --from=plan /plan/wanted.txt ./
RUN --mount=type=cache,target=/root/.cache/pip sh prepare-worker.sh && rm -r /build
ARG BASE_IMAGE
ARG VERSION=local
LABEL org.opencontainers.image.title="Redkiln worker" \
      org.opencontainers.image.description="Train models on AMD GPUs over HTTP and get verified ONNX back: the worker" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
COPY --from=code / /
ENV PYTHONPATH=/app PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 HOME=/worker \
    HF_HOME=/cache/huggingface ORT_DISABLE_TELEMETRY=1 \
    REDKILN_WORKER_DIR=/worker REDKILN_KERNEL_CACHE_DIR=/cache/kernels REDKILN_LOCK_DIR=/locks
RUN python -m compileall -q /app
WORKDIR /worker
HEALTHCHECK --interval=30s --timeout=10s --start-period=300s --start-interval=2s --retries=3 \
    CMD ["python", "-m", "docker.health", "worker"]
ENTRYPOINT ["python", "-m", "docker.worker"]
CMD ["python", "-m", "worker"]
