"""A device plugin: its program, and the pod or DaemonSet that runs it in the driver's image.

It speaks the kubelet's device plugin API, version v1beta1. Its messages have texts only, so they are encoded here.
"""

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

FOLDER = "/var/lib/kubelet/device-plugins"
NAME = "device-plugin"


def pod(node: str, resource: str, *devices: str) -> dict[str, Any]:
    """The device plugin of a resource on a node, with these devices."""
    spec = {"nodeName": node, **_spec(resource, devices)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}


def daemon_set(selector: dict[str, str], resource: str, *devices: str) -> dict[str, Any]:
    """The device plugin of a resource on the nodes with these labels."""
    labels = {"app": NAME}
    template = {"metadata": {"labels": labels}, "spec": {"nodeSelector": selector, **_spec(resource, devices)}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": NAME}, "spec": spec}


def _spec(resource: str, devices: Sequence[str]) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {
                "name": "main",
                "image": "lode-dra:dev",
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", Path(__file__).read_text(), resource, *devices],
                "securityContext": {"runAsUser": 0},
                "volumeMounts": [{"name": "kubelet", "mountPath": FOLDER}],
            }
        ],
        "volumes": [{"name": "kubelet", "hostPath": {"path": FOLDER}}],
    }


def main(resource: str, *devices: str) -> None:
    """Serve the kubelet until SIGTERM; then tell it that there are no devices any more."""
    stopping, told = threading.Event(), threading.Event()

    def list_and_watch(_request: bytes, _context: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"".join(_field(1, _field(1, device.encode()) + _field(2, b"Healthy")) for device in devices)
        stopping.wait()
        yield b""
        told.set()

    calls: dict[str, Any] = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(lambda _request, _context: b""),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch),
        "Allocate": grpc.unary_unary_rpc_method_handler(lambda _request, _context: _field(1, b"")),
    }
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", calls),))
    socket = f"{NAME}.sock"
    Path(FOLDER, socket).unlink(missing_ok=True)
    server.add_insecure_port(f"unix:{FOLDER}/{socket}")
    server.start()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stopping.set())
    with grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock") as kubelet:
        request = _field(1, b"v1beta1") + _field(2, socket.encode()) + _field(3, resource.encode())
        register: Any = kubelet.unary_unary("/v1beta1.Registration/Register")
        register(request, timeout=5)
    stopping.wait()
    told.wait(2)
    server.stop(1).wait()


def _field(number: int, content: bytes) -> bytes:
    """A field of a message: a text or a message of less than 128 bytes (Protocol Buffers, wire type 2)."""
    return bytes([number << 3 | 2, len(content)]) + content


if __name__ == "__main__":
    main(*sys.argv[1:])
