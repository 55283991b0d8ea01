# The Python version that requirements.lock was made with.
ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY webhook webhook
COPY certs certs
# The lock pins development tools too; as constraints it pins only what the wheel depends on.
# The environment has no pip of its own: nothing in the image installs anything at run time.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
    && python -m venv --without-pip /opt/gpu-topology \
    && pip --python /opt/gpu-topology/bin/python install --no-cache-dir --no-compile --constraint requirements.lock /dist/*.whl \
    && /opt/gpu-topology/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/gpu-topology/lib

FROM python:${PYTHON_VERSION}-slim
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="gpu-topology-webhook" \
      org.opencontainers.image.description="A mutating admission webhook that gives multi-GPU pods on HAMi clusters their NVLink back" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /opt/gpu-topology /opt/gpu-topology
ENV PATH=/opt/gpu-topology/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
EXPOSE 8443 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["gpu-topology"]
# Today serve also needs --state DIR and --tls DIR; give them as the container's arguments: serve --state /state --tls /tls
CMD ["serve"]
