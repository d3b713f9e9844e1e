"""Whether the kubelet of Kubernetes 1.38 registers the drivers that have registered on a node. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from cli.doctor.findings import Finding, ok
from cli.doctor.node_checks import PluginSocket
from driver.limits import MAX_SOCKET_PATH, bounded, is_driver_name

_CHECK: Final = "registration"
_PLAIN: Final = re.compile(r"(?!//)[^%?#\x00-\x1f\x7f]*")
"""A path that reads the same as part of a URL, as the gRPC of the kubelet reads it."""


def check_registrations(sockets: Iterable[PluginSocket]) -> Iterator[Finding]:
    """What is found of each driver that answers at its socket."""
    for socket in sockets:
        if not socket.driver and not socket.endpoint:
            continue
        subject = bounded(socket.driver or socket.path, 120)
        faults = [*_endpoint(socket.endpoint), *_name(socket.driver)]
        remedy = (
            f"start the driver with a shorter, absolute path for its sockets and a valid name, or install a version "
            f"of it that has them; it registers at {bounded(socket.path, 120)}"
        )
        for fault in faults:
            yield Finding("failed", _CHECK, subject, f"{fault}: the kubelet of 1.38 does not register it", remedy)
        if not faults:
            yield ok(_CHECK, subject, "the kubelet of 1.38 registers it, too")


def _endpoint(path: str) -> Iterator[str]:
    shown = bounded(path, 120)
    if not path.startswith("/"):
        yield f"its endpoint {shown!r} is no absolute path"
    elif len(path.encode()) > MAX_SOCKET_PATH:
        yield f"its endpoint {shown!r} has {len(path.encode())} bytes, more than {MAX_SOCKET_PATH}"
    elif not _PLAIN.fullmatch(path):
        yield f"its endpoint {shown!r} has characters that a plain path has not"


def _name(name: str) -> Iterator[str]:
    if not is_driver_name(name):
        yield f"{bounded(name, 120)!r} is no name of a driver"
