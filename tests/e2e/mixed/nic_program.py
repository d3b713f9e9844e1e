"""The program of a DRA driver of network cards.

It publishes what dranet publishes of a network card with RDMA: ``resource.kubernetes.io/pcieRoot``, and ``rdma``,
``ifName`` and ``numaNode`` of its own. A prepared card is an interface of the node that names its claim, and a CDI
spec. A card that is prepared for one claim is refused to another one.
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

DRIVER: Final = "dra.net"
KUBELET: Final = "/var/lib/kubelet"
CDI: Final = "/var/run/cdi"
_SERVICE: Final = Path(KUBELET, "plugins", DRIVER, "dra.sock")
_REGISTRATION: Final = Path(KUBELET, "plugins_registry", f"{DRIVER}-reg.sock")
_INTERFACES: Final = Path("/sys/class/net")
_RTM_NEWLINK, _RTM_DELLINK = 16, 17
_IFNAME, _LINKINFO, _ALIAS, _KIND = 3, 18, 20, 1


def main(cards: str, version: str) -> None:
    """Publish the cards and serve the kubelet until the process is killed."""
    api, devices = KubeClient.from_environment(), [_device(card, version) for card in json.loads(cards)]
    plugin = Plugin(api, {card["name"]: card["ifName"] for card in json.loads(cards)})
    _SERVICE.parent.mkdir(parents=True, exist_ok=True)
    servers = []  # one that nobody has ends
    for path, name, calls in (
        (_SERVICE, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", plugin.calls()),
        (_REGISTRATION, "pluginregistration.Registration", _registrar()),
    ):
        server = grpc.server(ThreadPoolExecutor(8))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, calls),))
        path.unlink(missing_ok=True)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        servers.append(server)
    while True:  # the kubelet removes the slices of a driver that was away
        try:
            _publish(api, os.environ["NODE_NAME"], devices)
        except ApiError as error:
            print("not published", error, flush=True)
        time.sleep(2)


def _device(card: Mapping[str, Any], version: str) -> dict[str, Any]:
    attributes = {
        "resource.kubernetes.io/pcieRoot": {"string": card["pcieRoot"]},
        "ifName": {"string": card["ifName"]},
        "numaNode": {"int": card["numaNode"]},
        "rdma": {"bool": True},
        "driverVersion": {"version": f"{version}.0.0"},
    }
    return {"name": card["name"], "attributes": attributes}


def _publish(api: Api, node: str, devices: Sequence[Any]) -> None:
    name, pool = f"{node}-{DRIVER}", {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
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
    """Answers the kubelet.

    Args:
        interfaces: the interface of each card.
    """

    def __init__(self, api: Api, interfaces: Mapping[str, str]):
        self._api = api
        self._interfaces = interfaces
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
        results = [it for it in claim["status"]["allocation"]["devices"]["results"] if it["driver"] == DRIVER]
        devices = []
        for result in results:
            interface = self._interfaces[result["device"]]
            _plug(interface, ref.uid)
            edits = {"env": [f"NIC_{result['request'].upper()}={interface}"]}
            devices.append({"name": f"{ref.uid}-{result['device']}", "containerEdits": edits})
        written = _spec(ref.uid).with_suffix(".tmp")
        written.write_text(json.dumps({"cdiVersion": "0.6.0", "kind": f"{DRIVER}/nic", "devices": devices}))
        written.rename(_spec(ref.uid))
        for result, device in zip(results, devices, strict=True):
            yield dra.Device(
                request_names=[result["request"]],
                pool_name=result["pool"],
                device_name=result["device"],
                cdi_device_ids=[f"{DRIVER}/nic={device['name']}"],
            )

    def _unprepare(self, request: Any, _context: grpc.ServicerContext) -> Any:
        answer = dra.NodeUnprepareResourcesResponse()
        for ref in request.claims:
            with self._lock:
                for interface in self._interfaces.values():
                    if _claim_of(interface) == ref.uid:
                        _link(_RTM_DELLINK, interface)
                _spec(ref.uid).unlink(missing_ok=True)
            answer.claims[ref.uid].error = ""
        return answer


def _registrar() -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    def told(request: Any, _context: grpc.ServicerContext) -> Any:
        print("registered" if request.plugin_registered else f"refused: {request.error}", flush=True)
        return registration.RegistrationStatusResponse()

    info = registration.PluginInfo(
        type="DRAPlugin", name=DRIVER, endpoint=str(_SERVICE), supported_versions=["v1.DRAPlugin"]
    )
    return {
        "GetInfo": _call(lambda _request, _context: info, registration.InfoRequest),
        "NotifyRegistrationStatus": _call(told, registration.RegistrationStatus),
    }


def _call(answer: Callable[[Any, grpc.ServicerContext], Any], request: Any) -> "grpc.RpcMethodHandler[Any, Any]":
    return grpc.unary_unary_rpc_method_handler(answer, request.FromString, lambda it: bytes(it.SerializeToString()))


def _spec(claim: str) -> Path:
    return Path(CDI, f"{DRIVER}-{claim}.json")


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
