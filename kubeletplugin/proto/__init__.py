"""The kubelet's gRPC services: vendored .proto files and generated code.

They are those of DRA plugins, of their devices' health, of registration, of device plugins and of PodResources.
``regenerate.sh`` in this folder makes the code from the .proto files and says where those come from. The files are the
Kubernetes Authors', licensed under Apache-2.0.
"""
