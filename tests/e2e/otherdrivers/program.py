"""The program of a DRA driver that stands for one of somebody else.

It is told its devices as JSON: ``name`` and ``attributes`` of each, which it publishes, and what a container gets, an
``interface`` of the node, whose name is in an environment variable, or a ``deviceNode``. A prepared device is in the
CDI spec of its claim, and its interface names the claim. A device that is prepared for one claim is refused to another
one, and so is one that ``needs`` another device which is not prepared.
"""

import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc

from driver.kube.api import NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, ApiError, NotFound
from driver.kube.client import KubeClient
from kubeletplugin.proto import dra_v1_pb2 as dra
from kubeletplugin.proto import pluginregistration_v1_pb2 as registration

KUBELET: Final = "/var/lib/kubelet"
CDI: Final = "/var/run/cdi"
_INTERFACES: Final = Path("/sys/class/net")
_RTM_NEWLINK, _RTM_DELLINK = 16, 17
_IFNAME, _LINKINFO, _ALIAS, _KIND = 3, 18, 20, 1


def main(driver: str, told: str) -> None:
    """Publish the devices and serve the kubelet until the process is killed."""
    api, devices = KubeClient.from_environment(), json.loads(told)
    plugin = Plugin(api, driver, devices)
    service = Path(KUBELET, "plugins", driver, "dra.sock")
    service.parent.mkdir(parents=True, exist_ok=True)
    servers = []  # one that nobody has ends
    for path, name, calls in (
        (service, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", plugin.calls()),
        (
            Path(KUBELET, "plugins_registry", f"{driver}-reg.sock"),
            "pluginregistration.Registration",
            _registrar(driver, service),
        ),
    ):
        server = grpc.server(ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, calls),))
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
    while True:  # the kubelet removes the slices of a driver that was away
        try:
            _publish(api, driver, os.environ["NODE_NAME"], devices)
        except ApiError as error:
            print("not published", error, flush=True)
        time.sleep(2)


def _publish(api: Api, driver: str, node: str, told: Sequence[Any]) -> None:
    name, pool = f"{node}-{driver}", {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": it["name"], "attributes": it["attributes"]} for it in told]
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    try:
        stored = api.get(RESOURCE_SLICES, name)
    except NotFound:
        uid = api.get(NODES, node)["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": True}
        api.create(RESOURCE_SLICES, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec})
        return
    if stored["spec"]["devices"] != devices:
        pool["generation"] = stored["spec"]["pool"]["generation"] + 1
        api.update(RESOURCE_SLICES, {**stored, "spec": spec})


class Plugin:
    """Answers the kubelet."""

    def __init__(self, api: Api, driver: str, devices: Sequence[Mapping[str, Any]]):
        self._api = api
        self._driver = driver
        self._devices = {it["name"]: it for it in devices}
        self._lock = threading.Lock()

    def calls(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        """The calls of ``v1.DRAPlugin``."""
        return {
            "NodePrepareResources": _call(self._prepare, dra.NodePrepareResourcesRequest),
            "NodeUnprepareResources": _call(self._unprepare, dra.NodeUnprepareResourcesRequest),
        }

    def _prepare(self, request: Any, _context: grpc.ServicerContext) -> Any:
        answer = dra.NodePrepareResourcesResponse()
        for ref in request.claims:
            try:
                with self._lock:
                    answer.claims[ref.uid].devices.extend(self._prepared(ref))
            except (ApiError, LookupError, ValueError, OSError) as error:
                print("not prepared", ref.uid, error, flush=True)
                answer.claims[ref.uid].error = str(error) or repr(error)
        return answer

    def _prepared(self, ref: Any) -> Iterator[Any]:
        claim = self._api.get(RESOURCE_CLAIMS, ref.name, ref.namespace)
        if claim["metadata"]["uid"] != ref.uid:
            raise ValueError(f"claim {ref.namespace}/{ref.name} is another one")
        results = [it for it in claim["status"]["allocation"]["devices"]["results"] if it["driver"] == self._driver]
        devices = []
        for result in results:
            device = self._devices[result["device"]]
            if (holder := self._holder(result["device"])) not in ("", ref.uid):
                raise ValueError(f"device {result['device']} is with claim {holder}")
            if "needs" in device and not self._holder(device["needs"]):
                raise ValueError(f"device {result['device']} needs {device['needs']}, which is not prepared")
            edits = _edits(device, result["request"], ref.uid)
            devices.append({"name": f"{ref.uid}-{result['device']}", "containerEdits": edits})
        written = self._spec(ref.uid).with_suffix(".tmp")
        written.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": f"{self._driver}/device", "devices": devices}))
        written.rename(self._spec(ref.uid))
        for result, device in zip(results, devices, strict=True):
            yield dra.Device(
                request_names=[result["request"]],
                pool_name=result["pool"],
                device_name=result["device"],
                cdi_device_ids=[f"{self._driver}/device={device['name']}"],
            )

    def _holder(self, device: str) -> str:
        """The uid of the claim in whose CDI spec a device is; "" if it is in none."""
        for path in Path(CDI).glob(f"{self._driver}-*.json"):
            uid = path.stem.removeprefix(f"{self._driver}-")
            if f"{uid}-{device}" in [it["name"] for it in json.loads(path.read_text())["devices"]]:
                return uid
        return ""

    def _spec(self, claim: str) -> Path:
        return Path(CDI, f"{self._driver}-{claim}.json")

    def _unprepare(self, request: Any, _context: grpc.ServicerContext) -> Any:
        answer = dra.NodeUnprepareResourcesResponse()
        for ref in request.claims:
            with self._lock:
                for interface in (it["interface"] for it in self._devices.values() if "interface" in it):
                    if _claim_of(interface) == ref.uid:
                        _link(_RTM_DELLINK, interface)
                self._spec(ref.uid).unlink(missing_ok=True)
            answer.claims[ref.uid].error = ""
        return answer


def _registrar(driver: str, service: Path) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    def told(request: Any, _context: grpc.ServicerContext) -> Any:
        print("registered" if request.plugin_registered else f"refused: {request.error}", flush=True)
        return registration.RegistrationStatusResponse()

    info = registration.PluginInfo(
        type="DRAPlugin", name=driver, endpoint=str(service), supported_versions=["v1.DRAPlugin"]
    )
    return {
        "GetInfo": _call(lambda _request, _context: info, registration.InfoRequest),
        "NotifyRegistrationStatus": _call(told, registration.RegistrationStatus),
    }


def _call(answer: Callable[[Any, grpc.ServicerContext], Any], request: Any) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(answer, request.FromString, lambda it: bytes(it.SerializeToString()))


def _edits(device: Mapping[str, Any], request: str, claim: str) -> dict[str, Any]:
    """What a container with this device gets, once its interface is made."""
    if "interface" not in device:
        null = {"type": "c", "major": 1, "minor": 3}
        return {"deviceNodes": [{"path": device["deviceNode"], "hostPath": "/dev/null", **null}]}
    _plug(device["interface"], claim)
    return {"env": [f"NIC_{request.upper()}={device['interface']}"]}


def _claim_of(interface: str) -> str:
    """The uid of the claim that an interface of this node is prepared for; "" if there is none."""
    try:
        return (_INTERFACES / interface / "ifalias").read_text().strip()
    except FileNotFoundError:
        return ""


def _plug(interface: str, claim: str) -> None:
    held = _claim_of(interface)
    if held == claim:
        return
    if held:
        raise ValueError(f"interface {interface} is with claim {held}")
    if (_INTERFACES / interface).exists():  # this program was killed before the interface had its claim
        _link(_RTM_DELLINK, interface)
    try:
        _link(_RTM_NEWLINK, interface, kind="dummy")
    except OSError:  # a kernel without them; it has bridges, or there would be no kind
        _link(_RTM_NEWLINK, interface, kind="bridge")
    _link(_RTM_NEWLINK, interface, alias=claim)


def _link(operation: int, interface: str, kind: str = "", alias: str = "") -> None:
    """Make an interface of a kind, change its alias, or remove it (rtnetlink(7)).

    Raises:
        OSError: the kernel refuses it.
    """
    request, acknowledge, create, exclusive = 1, 4, 0x400, 0x200
    flags, body = request | acknowledge, _attribute(_IFNAME, interface.encode() + b"\0")
    if kind:
        flags |= create | exclusive
        body += _attribute(_LINKINFO, _attribute(_KIND, kind.encode()))
    if alias:
        body += _attribute(_ALIAS, alias.encode())
    body = bytes(16) + body
    message = struct.pack("=IHHII", 16 + len(body), operation, flags, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as kernel:
        kernel.bind((0, 0))
        kernel.send(message)
        (error,) = struct.unpack_from("=i", kernel.recv(8192), 16)
    if error:
        raise OSError(-error, f"{interface}: {os.strerror(-error)}")


def _attribute(kind: int, data: bytes) -> bytes:
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + bytes(-size % 4)


if __name__ == "__main__":
    main(*sys.argv[1:])
