# One image for serve, agent and remap. `make image` builds it, `make image-test` builds it without a registry and runs it.
#
# Both stages are the same Debian, so that the environment that the first one makes finds its Python in the second.
# Debian 12 has Python 3.11, for which requirements.lock is made; its security fixes come with a new build.
# Whoever needs equal builds gives a digest here, such as --build-arg DEBIAN=bookworm-slim@sha256:...
ARG DEBIAN=bookworm-slim

FROM debian:${DEBIAN} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip python3-venv
WORKDIR /src
COPY pyproject.toml requirements.lock README.md LICENSE ./
COPY webhook webhook
COPY certs certs
COPY examples examples
# The lock pins development tools too; as constraints it pins only what the wheel depends on.
# The environment has no pip of its own, and of the programs of its libraries none: nothing in the image installs anything.
# The official Kubernetes client reads kubeconfigs, which a pod of the cluster has none of: it does not come along.
# Unchecked hashes: nobody writes here, and bytecode with times of files would be another one with each build.
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
    && python3 -m venv --without-pip /opt/gpu-topology \
    && pip --python /opt/gpu-topology/bin/python install --no-cache-dir --no-compile --only-binary :all: \
        --constraint requirements.lock /dist/*.whl \
    && find /opt/gpu-topology/bin -type f ! -name gpu-topology -delete \
    && rm -r /opt/gpu-topology/lib/python3*/site-packages/kubernetes \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/gpu-topology/lib

FROM debian:${DEBIAN}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY --from=build /opt/gpu-topology /opt/gpu-topology
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.title="gpu-topology-webhook" \
      org.opencontainers.image.description="A mutating admission webhook that gives multi-GPU pods on HAMi clusters their NVLink back" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# NVIDIA_VISIBLE_DEVICES is not set on purpose: the image asks for no GPU, the pod does.
ENV PATH=/opt/gpu-topology/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1
# A number, because runAsNonRoot looks at no name; any other works as well.
USER 65532:65532
EXPOSE 8443 8080
# For serve and agent. Kubernetes does not look at it; the chart has probes.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
# The program is process 1 and handles SIGTERM itself; it has no children to reap.
ENTRYPOINT ["gpu-topology"]
CMD ["--help"]
