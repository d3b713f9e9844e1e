"""The paths of the plugin's two sockets, short enough for the kernel; and connections to sockets of the node.

Names follow the convention of k8s.io/dynamic-resource-allocation/kubeletplugin. They contain the pod's uid, so the two
instances of a rolling update have different sockets.
"""

import base64
import hashlib
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

import grpc

from driver.errors import OperatorFault
from driver.limits import MAX_SOCKET_PATH


@dataclass(frozen=True, slots=True)
class SocketPaths:
    """Absolute paths, equal for the plugin and the kubelet."""

    service: str
    registration: str


def socket_paths(kubelet_root: str, driver: str, pod_uid: str = "") -> SocketPaths:
    """The paths of one instance; ``pod_uid`` is "" if there is never more than one.

    Raises:
        OperatorFault: no path fits the kernel's limit. The kubelet's root must be a shorter path.
    """
    services, registrations = [f"dra-{pod_uid}.sock"], [f"{driver}-{pod_uid}-reg.sock"]
    if pod_uid:
        services.append(f"dra-{_digest(pod_uid, 8)}.sock")
        registrations.append(f"{driver}-{_digest(pod_uid, 8)}-reg.sock")
    else:
        services, registrations = ["dra.sock"], [f"{driver}-reg.sock"]
    both = f"{driver}\0{pod_uid}"
    registrations.append(f"dra-{_digest(both, 16)}-reg.sock")
    return SocketPaths(
        service=_first_fitting(Path(kubelet_root, "plugins", driver), services),
        registration=_first_fitting(Path(kubelet_root, "plugins_registry"), registrations),
    )


def channel_to(path: str | Path, *options: tuple[str, int]) -> grpc.Channel:
    """A gRPC channel with a connection of its own to a socket.

    Channels of one process share connections otherwise: a new one to a path gets what an earlier one has to a socket
    that is no longer there, or the back-off of one that could not connect.
    """
    return grpc.insecure_channel(f"unix:{path}", [("grpc.use_local_subchannel_pool", 1), *options])


def remove_dead_sockets(directory: str, prefix: str) -> list[str]:
    """Remove sockets ``<prefix>*.sock`` of killed instances, which have no listener; returns their paths.

    The sockets of another running instance, as in a rolling update, stay.
    """
    dead = []
    for path in sorted(Path(directory).glob(f"{prefix}*.sock")):
        if is_socket(path) and not has_listener(path):
            path.unlink(missing_ok=True)
            dead.append(str(path))
    return dead


def _digest(text: str, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:length]).decode().rstrip("=")


def _first_fitting(directory: Path, names: list[str]) -> str:
    for name in names:
        if len(os.fsencode(directory / name)) <= MAX_SOCKET_PATH:
            return str(directory / name)
    raise OperatorFault(
        f"{directory}: the path of a socket would exceed {MAX_SOCKET_PATH} bytes: {names[-1]}; "
        "set kubeletplugin.kubeletRoot, and the kubelet's --root-dir, to a shorter path"
    )


def is_socket(path: Path) -> bool:
    """Whether there is a socket, not a link to one."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except FileNotFoundError:
        return False


def has_listener(path: Path) -> bool:
    """Whether a process listens at the socket, or may do so."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
