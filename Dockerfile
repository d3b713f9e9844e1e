# The image of both programs: `lode controller` and `lode kubeletplugin`. The latter must run as root, because only root
# can open the kubelet's sockets and configure devices. `lode demo` is not part of it: .dockerignore leaves out the package
# `simulation`.
#
#     docker build --tag lode-dra:dev .
#     docker build --build-arg BASE=registry.example/python:3.11-slim --tag lode-dra:dev .

ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN python3 -m pip install --no-cache-dir uv==0.13.9
ENV UV_PROJECT_ENVIRONMENT=/opt/lode UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /source
# Install the dependencies first: this layer changes only with pyproject.toml and uv.lock.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --no-install-project
COPY . .
RUN uv sync --locked --no-dev --no-editable

FROM ${BASE}
COPY --from=build /opt/lode /opt/lode
ENV PATH=/opt/lode/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["lode"]
