"""Device plugins in the ways of vendors: their program, and the pod that runs it in the driver's image.

``amd`` answers device files. ``nvidia`` answers variables, mounts and names of CDI devices, whose spec it writes.
``file`` answers a link to a device file, for reading only. The same program serves the kubelet or Lode: only the folder
of the host differs that its pod mounts.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

FOLDER = "/var/lib/kubelet/device-plugins"
OURS = "/var/lib/kubelet/plugins/lode.dev/device-plugins"
IDS = ("0000:18:00.0", "0000:af:00.0")
ILL = "/tmp/ill"
"""A file with the IDs that do not work, one in a line."""
_LINK = "lode-test-by-id"
_SPEC = "/var/run/cdi/vendor.example.com-card.json"
LEFT = (f"/dev/{_LINK}", _SPEC)
"""Files of a node that stay when the plugins end."""


def resource(way: str) -> str:
    """The resource of the plugin in this way; AMD's has the name that pods know."""
    return "amd.com/gpu" if way == "amd" else f"{way}.example.com/card"


def pod(way: str, node: str, folder: str) -> dict[str, Any]:
    """The device plugin on a node; ``folder`` of the host is its kubelet's."""
    spec = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "main",
                "image": "lode-dra:dev",
                "imagePullPolicy": "IfNotPresent",
                "command": ["python3", "-c", Path(__file__).read_text(), way],
                "securityContext": {"runAsUser": 0, "privileged": True},
                "volumeMounts": [
                    {"name": "kubelet", "mountPath": FOLDER},
                    {"name": "cdi", "mountPath": "/var/run/cdi"},
                    {"name": "dev", "mountPath": "/host-dev"},
                ],
            }
        ],
        "volumes": [
            {"name": "kubelet", "hostPath": {"path": folder}},
            {"name": "cdi", "hostPath": {"path": "/var/run/cdi", "type": "DirectoryOrCreate"}},
            {"name": "dev", "hostPath": {"path": "/dev"}},
        ],
    }
    name = f"plugin-{way}-{node}"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"plugin": way}}, "spec": spec}


def main(way: str) -> None:
    """Serve and register, and again when the socket was removed, until the process is killed."""
    from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as pb

    socket = Path(FOLDER, f"{way}.sock")
    if way == "nvidia":
        devices = [
            {
                "name": f"card{number}",
                "containerEdits": {
                    "env": [f"CDI_CARD_{number}=1"],
                    "deviceNodes": [{"path": f"/dev/vendor{number}", "hostPath": "/dev/random"}],
                },
            }
            for number in range(len(IDS))
        ]
        spec = {"cdiVersion": "0.6.0", "kind": "vendor.example.com/card", "devices": devices}
        Path(_SPEC).write_text(json.dumps(spec))
    if way == "file":
        Path("/host-dev", _LINK).unlink(missing_ok=True)
        Path("/host-dev", _LINK).symlink_to("zero")

    def listed() -> list[Any]:
        ill = Path(ILL).read_text().split() if Path(ILL).exists() else []
        return [pb.Device(ID=name, health="Unhealthy" if name in ill else "Healthy") for name in IDS]

    def list_and_watch(_request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        told: list[Any] = []
        while context.is_active():
            if (now := listed()) != told:
                told = now
                yield pb.ListAndWatchResponse(devices=told)
            time.sleep(0.1)

    def allocate(request: Any, _context: grpc.ServicerContext) -> Any:
        answers = [_answer(pb, way, sorted(one.devices_ids)) for one in request.container_requests]
        return pb.AllocateResponse(container_responses=answers)

    def text(message: Any) -> bytes:
        return bytes(message.SerializeToString())

    calls: dict[str, Any] = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
            lambda _request, _context: pb.DevicePluginOptions(), pb.Empty.FromString, text
        ),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(list_and_watch, pb.Empty.FromString, text),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocate, pb.AllocateRequest.FromString, text),
    }
    while True:
        server = grpc.server(ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", calls),))
        socket.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        with grpc.insecure_channel(f"unix:{FOLDER}/kubelet.sock", [("grpc.use_local_subchannel_pool", 1)]) as host:
            request = pb.RegisterRequest(version="v1beta1", endpoint=socket.name, resource_name=resource(way))
            register: Any = host.unary_unary("/v1beta1.Registration/Register", text, pb.Empty.FromString)
            try:
                register(request, timeout=20, wait_for_ready=True)
                print("registered", flush=True)
                while socket.exists():
                    time.sleep(0.2)
            except grpc.RpcError as error:
                print("refused", error.details(), flush=True)
                threading.Event().wait(2)
        server.stop(None).wait()


def _answer(pb: Any, way: str, ids: list[str]) -> Any:
    numbers = [IDS.index(name) for name in ids]
    match way:
        case "amd":
            devices = [pb.DeviceSpec(host_path="/dev/null", container_path="/dev/kfd", permissions="rw")]
            for number in numbers:
                for host, path in (("/dev/zero", f"/dev/dri/card{number}"), ("/dev/full", f"/dev/dri/render{number}")):
                    devices.append(pb.DeviceSpec(host_path=host, container_path=path, permissions="rw"))
            return pb.ContainerAllocateResponse(devices=devices)
        case "nvidia":
            return pb.ContainerAllocateResponse(
                envs={"VENDOR_VISIBLE_DEVICES": ",".join(ids)},
                mounts=[
                    pb.Mount(host_path="/etc/passwd", container_path="/opt/vendor/passwd", read_only=True),
                    pb.Mount(host_path="/var/run/cdi", container_path="/opt/vendor/specs", read_only=False),
                ],
                cdi_devices=[pb.CDIDevice(name=f"vendor.example.com/card=card{number}") for number in numbers],
            )
        case _:
            device = pb.DeviceSpec(host_path=f"/dev/{_LINK}", container_path="/dev/by-id", permissions="r")
            return pb.ContainerAllocateResponse(devices=[device])


if __name__ == "__main__":
    main(*sys.argv[1:])
