"""Asks the kubelet for devices that it can give and has given to containers (PodResources API, version 1)."""

import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc

from driver.observe import Logger
from driver.settings import Settings
from kubeletplugin.kubelet_devices import KubeletAnswer, KubeletClaim, KubeletDevices, PluginDevice, SilentKubelet
from kubeletplugin.proto import podresources_v1_pb2, podresources_v1_pb2_grpc
from kubeletplugin.sockets import channel_to

T = TypeVar("T")

ANSWER_SECONDS = 2.0
MOST_BYTES = 32 * 1024 * 1024
"""The longest answer that is read. The kubelet has no limit, and its answer grows with the pods and devices of the
node; but a longer one would not fit in the memory that the plugin may have."""


def socket_paths(settings: Settings) -> tuple[str, ...]:
    """Possible paths of the kubelet's socket: below the host's file system in the plugin's pod, and on the host."""
    section = settings.kubeletplugin
    path = f"{section.kubelet_root}/pod-resources/kubelet.sock"
    return f"{section.nvidia.host_root}{path}", path


class PodResources:
    """The kubelet of this node.

    Args:
        paths: possible paths of its socket.
    """

    def __init__(self, paths: Sequence[str], log: Logger):
        self._paths = paths
        self._log = log
        self._fault = ""

    def devices(self) -> KubeletAnswer:
        """The kubelet's devices now. That it does not answer is logged when the reason is new."""

        def ask(kubelet: Any) -> tuple[Any, Any]:
            request = podresources_v1_pb2.AllocatableResourcesRequest()
            offered = kubelet.GetAllocatableResources(request, timeout=ANSWER_SECONDS)
            return offered, kubelet.List(podresources_v1_pb2.ListPodResourcesRequest(), timeout=ANSWER_SECONDS)

        socket = self._socket()
        answer = self._ask(ask)
        if answer is None or socket is None or socket != self._socket():  # another kubelet may have started meanwhile
            return SilentKubelet(has_socket=socket is not None)
        offered, given = answer
        containers = [container for pod in given.pod_resources for container in pod.containers]
        return KubeletDevices(
            _devices(offered.devices),
            frozenset(device for container in containers for device in _devices(container.devices)),
            frozenset(
                claimed.driver_name
                for container in containers
                for resource in container.dynamic_resources
                for claimed in resource.claim_resources
            ),
            socket[1],
        )

    def claims(self) -> tuple[KubeletClaim, ...]:
        """The claims of each running container; () if the kubelet does not answer, which is logged."""
        request = podresources_v1_pb2.ListPodResourcesRequest()
        given = self._ask(lambda kubelet: kubelet.List(request, timeout=ANSWER_SECONDS))
        found: dict[KubeletClaim, None] = {}
        for pod in given.pod_resources if given is not None else ():
            for container, claim in ((each, claim) for each in pod.containers for claim in each.dynamic_resources):
                ids = frozenset(device.name for one in claim.claim_resources for device in one.cdi_devices)
                found[KubeletClaim(claim.claim_namespace, claim.claim_name, ids, pod.name, container.name)] = None
        return tuple(found)

    def _ask(self, question: Callable[[Any], T]) -> T | None:
        """The answer; None if there is none, which is logged when the reason is new."""
        socket = self._socket()
        if socket is None:
            self._report(f"no socket at {' or '.join(self._paths)}")
            return None
        path = socket[0]
        try:
            with channel_to(path, ("grpc.max_receive_message_length", MOST_BYTES)) as channel:
                answer = question(podresources_v1_pb2_grpc.PodResourcesListerStub(channel))
        except grpc.RpcError as error:
            self._report(f"{path}: {error.code().name}: {error.details()}")
            return None
        self._report("")
        return answer

    def _socket(self) -> tuple[str, str] | None:
        """The path of the kubelet's socket, and a name of this run of the kubelet: it makes the socket anew when it
        starts."""
        for path in self._paths:
            with suppress(OSError):
                found = Path(path).stat()
                if stat.S_ISSOCK(found.st_mode):
                    return path, f"{found.st_ino}-{found.st_ctime_ns}"
        return None

    def _report(self, fault: str) -> None:
        if fault not in ("", self._fault):
            self._log.warning("the kubelet does not say which devices it hands out", reason=fault)
        self._fault = fault


def _devices(entries: Iterable[Any]) -> frozenset[PluginDevice]:
    return frozenset(PluginDevice(entry.resource_name, name) for entry in entries for name in entry.device_ids)
