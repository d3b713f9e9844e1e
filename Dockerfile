# The image of both programs: `lode controller` and `lode kubeletplugin`. The latter has to run as root: it talks to the
# kubelet over sockets that only root reaches, and configures devices. `lode demo` is not in it: .dockerignore leaves the
# package `simulation` out.
#
#     docker build --tag lode-dra:dev .
#     docker build --build-arg BASE=registry.example/python:3.11-slim --tag lode-dra:dev .

ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
RUN python3 -m pip install --no-cache-dir uv==0.13.9
ENV UV_PROJECT_ENVIRONMENT=/opt/lode UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /source
# Dependencies first: this layer changes with uv.lock only.
COPY pyproject.toml uv.lock ./
RUN uv sync --locked --no-dev --no-install-project
COPY . .
RUN uv sync --locked --no-dev --no-editable

FROM ${BASE}
COPY --from=build /opt/lode /opt/lode
ENV PATH=/opt/lode/bin:$PATH PYTHONUNBUFFERED=1
ENTRYPOINT ["lode"]
