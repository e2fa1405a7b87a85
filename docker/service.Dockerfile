# The service. With other commands also the init container, backups and the command-line client.
# Build from the repository's root: docker build -f docker/service.Dockerfile .
ARG BASE_IMAGE=python:3.13-slim
ARG NODE_IMAGE=node:22-slim

# The web page, built here into static files; nothing else of this stage is kept.
FROM ${NODE_IMAGE} AS page
WORKDIR /page
COPY page/package.json page/package-lock.json page/.npmrc ./
RUN --mount=type=cache,target=/root/.npm npm ci
COPY page ./
RUN npm run build

FROM ${BASE_IMAGE} AS plan
WORKDIR /plan
COPY pyproject.toml docker/requirements.py ./
RUN python requirements.py wanted service > wanted.txt

FROM ${BASE_IMAGE} AS build
WORKDIR /build
# Copied from a stage, this file invalidates the layer below only if its own text changes.
COPY --from=plan /plan/wanted.txt ./
COPY constraints.txt docker/hashes.txt docker/requirements.py docker/trim-arrow.sh ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv --without-pip /opt/redkiln \
 && python -m pip --disable-pip-version-check --python /opt/redkiln/bin/python \
      install --report report.json --constraint constraints.txt --requirement wanted.txt \
 && python requirements.py verify report.json \
 && sh trim-arrow.sh /opt/redkiln/bin/python

FROM ${BASE_IMAGE}
# Not every base has useradd.
RUN echo 'redkiln:x:10001:10001::/state:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'redkiln:x:10001:' >> /etc/group \
 && mkdir -p /state /data /work /app \
 && chown 10001:10001 /state && chmod 700 /state
COPY --from=build /opt/redkiln /opt/redkiln
COPY --chmod=755 docker/redkiln /usr/local/bin/redkiln
COPY LICENSE /app/
COPY redkiln /app/redkiln
COPY docker/*.py /app/docker/
COPY service /app/service
COPY --from=page /page/dist /app/page/dist
ENV PATH=/opt/redkiln/bin:$PATH \
    PYTHONPATH=/app \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    ORT_DISABLE_TELEMETRY=1 \
    HOME=/state \
    REDKILN_BIND=0.0.0.0:8321 \
    REDKILN_STATE_DIR=/state
RUN python -m compileall -q /app
ARG BASE_IMAGE
ARG VERSION=local
LABEL org.opencontainers.image.title="Redkiln service" \
      org.opencontainers.image.description="Train models on AMD GPUs over HTTP and get verified ONNX back: the HTTP service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.base.name="${BASE_IMAGE}"
WORKDIR /state
USER 10001:10001
EXPOSE 8321
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --start-interval=1s --retries=3 \
    CMD ["python", "-m", "docker.health", "service"]
ENTRYPOINT ["python", "-m", "docker.service"]
CMD ["python", "-m", "service"]
