# The image of both programs: `lode controller` and `lode kubeletplugin`. It has neither the simulation (.dockerignore)
# nor what reads kubeconfigs (the extra `command`): those belong on a workstation.
#
# For two architectures, with the list of everything in it (SBOM), and the same bytes each time it is built from a commit:
#
#     export SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
#     docker buildx build --platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max \
#         --output type=image,name=registry.example/lode:0.1.0,push=true,rewrite-timestamp=true .
#
# To try it: docker build --tag lode-dra:dev .

# By digest, so that the same commit always has the same base. To change it: docker buildx imagetools inspect IMAGE
ARG BASE=docker.io/library/python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b

FROM ${BASE} AS build
COPY requirements-uv.txt ./
RUN python3 -m pip install --no-cache-dir --require-hashes --requirement requirements-uv.txt
ENV UV_PROJECT_ENVIRONMENT=/opt/lode UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
# Byte code that does not name the time of its source.
ENV PYC_INVALIDATION_MODE=unchecked-hash
WORKDIR /source
# Install the dependencies first: this layer changes only with pyproject.toml and uv.lock.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --no-install-project
# What builds the wheel is locked as well, and stays out of the image.
RUN UV_PROJECT_ENVIRONMENT=/opt/build uv sync --locked --only-group build
COPY . .
RUN uv build --wheel --no-build-isolation --python /opt/build/bin/python3 --out-dir /dist \
    && uv pip install --python /opt/lode/bin/python3 --no-deps /dist/*.whl

FROM ${BASE}
ARG SOURCE_DATE_EPOCH=0
LABEL org.opencontainers.image.title="Lode" \
      org.opencontainers.image.description="GPUs and NPUs in Kubernetes as ResourceClaims: controller and kubelet plugin" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --from=build /opt/lode /opt/lode
# A program that ends in the code of a library, such as by a null pointer, says where each of its threads was.
ENV PATH=/opt/lode/bin:$PATH PYTHONUNBUFFERED=1 PYTHONFAULTHANDLER=1
# The kubelet plugin must run as root, because only root can open the kubelet's sockets: its pod says so.
USER 65532:65532
ENTRYPOINT ["lode"]
