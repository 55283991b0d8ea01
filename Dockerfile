# Two images: gpu-topology-webhook for serve, agent and the command line, and gpu-topology-remap (--target remap) for
# the container that is put into pods. `make image` builds both, `make image-test` builds them without a registry and runs
# them.
#
# All stages are the same Debian with the same Python, so that the environments that are made here find it there.
# Debian 12 has Python 3.11, for which requirements.lock is made; its security fixes come with a new build.
# For equal builds give a digest here, such as --build-arg DEBIAN=bookworm-slim@sha256:...
ARG DEBIAN=bookworm-slim

FROM debian:${DEBIAN} AS python
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

FROM python AS tools
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-pip python3-venv
WORKDIR /src
COPY pyproject.toml requirements.lock ./

# What remap does without. A stage of its own, because it changes less often than our code and takes longest to build.
# The official Kubernetes client reads kubeconfigs, which a pod of the cluster has none of: it is not installed, nor is
# what only it needs. The lock pins development tools too; as constraints it pins only what is asked for.
# The environment has no pip of its own, and of the programs of its libraries none: nothing in the image installs anything.
# Unchecked hashes: no user of the image can write here, and bytecode that holds times of files differs with each build.
FROM tools AS libraries
RUN python3 -m venv --without-pip /opt/gpu-topology \
    && python3 -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
        | grep --invert-match --extended-regexp '^(kubernetes|nvidia-ml-py)\b' > /tmp/libraries \
    && pip --python /opt/gpu-topology/bin/python install --no-cache-dir --no-compile --only-binary :all: \
        --constraint requirements.lock --requirement /tmp/libraries \
    && find /opt/gpu-topology/bin -type f -delete \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/gpu-topology/lib

# Our code and the bindings of NVML, which is all that remap loads beside the standard library.
FROM tools AS program
COPY README.md LICENSE ./
COPY webhook webhook
COPY certs certs
COPY examples examples
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
    && python3 -m venv --without-pip /opt/gpu-topology \
    && pip --python /opt/gpu-topology/bin/python install --no-cache-dir --no-compile --only-binary :all: --no-deps \
        --constraint requirements.lock nvidia-ml-py /dist/*.whl \
    && find /opt/gpu-topology/bin -type f ! -name gpu-topology -delete \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/gpu-topology/lib

FROM python AS runtime
ARG VERSION=""
ARG REVISION=""
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# NVIDIA_VISIBLE_DEVICES is not set on purpose: the image asks for no GPU, the pod does.
ENV PATH=/opt/gpu-topology/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1
# A number, because runAsNonRoot looks at no name; any other works as well.
USER 65532:65532
# The program is process 1 and handles SIGTERM itself; it has no children to reap.
ENTRYPOINT ["gpu-topology"]

FROM runtime AS remap
COPY --from=program /opt/gpu-topology /opt/gpu-topology
LABEL org.opencontainers.image.title="gpu-topology-remap" \
      org.opencontainers.image.description="Verifies in a pod that it has the GPUs that it was given; part of gpu-topology-webhook"
CMD ["remap", "--help"]

# The last stage is what is built without --target.
FROM runtime AS webhook
COPY --from=libraries /opt/gpu-topology /opt/gpu-topology
COPY --from=program /opt/gpu-topology /opt/gpu-topology
LABEL org.opencontainers.image.title="gpu-topology-webhook" \
      org.opencontainers.image.description="A mutating admission webhook that gives multi-GPU pods on HAMi clusters their NVLink back"
EXPOSE 8443 8080
# For serve and agent. Kubernetes does not look at it; the chart has probes.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
CMD ["--help"]
