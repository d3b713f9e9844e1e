"""The kubelet's gRPC services (DRA plugin, device health, registration): vendored .proto files and generated code.

``regenerate.sh`` in this folder makes the code from the .proto files and says where those come from.
"""
