#!/bin/sh
# Generate the Python code of the kubelet's gRPC services from the .proto files beside this script.
#
# The .proto files are those of Go module k8s.io/kubelet v0.37.1, pkg/apis/<name>/<version>/api.proto, renamed because
# all of them are called api.proto and Python keeps one descriptor pool. They are the Kubernetes Authors', licensed under
# Apache-2.0, and so is what is generated from them. The usual call, from anywhere:
#
#     kubeletplugin/proto/regenerate.sh            # writes beside the .proto files
#     kubeletplugin/proto/regenerate.sh DIRECTORY  # writes below another root, for comparing
#
# Needs grpcio-tools and mypy-protobuf (the development dependencies); PYTHON names the interpreter that has them.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${1:-$root}
python=$(command -v "${PYTHON:-$root/.venv/bin/python}")
PATH=$(dirname "$python"):$PATH
cd "$root"
exec "$python" -m grpc_tools.protoc -I . --python_out="$out" --grpc_python_out="$out" --mypy_out="quiet:$out" --mypy_grpc_out="quiet:$out" \
    kubeletplugin/proto/*.proto
