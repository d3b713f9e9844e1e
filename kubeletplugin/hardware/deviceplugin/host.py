"""Plays the kubelet for device plugins: its socket, their registrations, their lists, and questions to them.

A device plugin notices a new kubelet in different ways: ``kubelet.sock`` is created, or first removed and then created,
or the socket of the device plugin vanishes. So a start does all three, without a gap in which there is no
``kubelet.sock``. After that a connection that is lost is never opened again: a device plugin registers again itself,
and a second stream would take reports of faults from the first. During a rolling update the newer program takes
``kubelet.sock``, and the older one leaves everything as it is.
"""

import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from driver.clock import Clock
from driver.errors import OperatorFault, TransientFault
from driver.limits import MAX_SOCKET_PATH, bounded
from driver.observe import Logger
from driver.threads import start_thread
from kubeletplugin.hardware.deviceplugin.answers import AnsweredDevice, AnsweredMount, PluginAnswer
from kubeletplugin.hardware.deviceplugin.backend import DevicePlugins
from kubeletplugin.hardware.deviceplugin.metrics import RefusalReason
from kubeletplugin.hardware.deviceplugin.refusals import looks_for_its_pod, refusal_of
from kubeletplugin.hardware.deviceplugin.registry import MOST_RESOURCES, Registration, Registry
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.hardware.port import HardwareRefusal
from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as messages
from kubeletplugin.proto import deviceplugin_v1beta1_pb2_grpc as stubs
from kubeletplugin.sockets import channel_to, has_listener, is_socket

_LABEL: Final = "security.selinux"
_SHARED: Final = b"system_u:object_r:container_file_t:s0\0"


def make_folder(folder: Path) -> None:
    """Make the folder, or correct its rights: only root and what it gives the folder to may enter it.

    Raises:
        OperatorFault, OSError: there is something else at its path.
    """
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OperatorFault(f"{folder}: is no folder; remove it, or set kubeletplugin.deviceplugin.folder")
    if status.st_uid != os.geteuid():
        raise OperatorFault(f"{folder}: belongs to user {status.st_uid}; remove it: its owner could pretend to be one")
    if stat.S_IMODE(status.st_mode) != 0o750:
        folder.chmod(0o750)
    with suppress(OSError):  # there is no SELinux
        if os.getxattr(folder, _LABEL) != _SHARED:
            os.setxattr(folder, _LABEL, _SHARED)


_HEALTHY: Final = "Healthy"


def reported_in(answer: messages.ListAndWatchResponse) -> Iterator[Reported]:
    """The devices of a list."""
    for device in answer.devices:
        nodes = [node.ID for node in device.topology.nodes if node.ID >= 0]
        yield Reported(device.ID, device.health == _HEALTHY, min(nodes) if nodes else None)


def answer_from(raw: messages.ContainerAllocateResponse) -> PluginAnswer:
    """The answer for one container."""
    return PluginAnswer(
        env=dict(raw.envs),
        mounts=tuple(AnsweredMount(it.container_path, it.host_path, it.read_only) for it in raw.mounts),
        devices=tuple(AnsweredDevice(it.container_path, it.host_path, it.permissions) for it in raw.devices),
        annotations=dict(raw.annotations),
        cdi_devices=tuple(device.name for device in raw.cdi_devices),
    )


class RefusedError(Exception):
    """The error that a registration is answered with. Its code says by default that the request is invalid."""

    def __init__(self, reason: RefusalReason, message: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT):
        super().__init__(message)
        self.reason = reason
        self.code = code


class DevicePluginConnection:
    """A connection to a device plugin."""

    def __init__(self, registration: Registration, channel: grpc.Channel, stub: Any, began: float):
        self.registration = registration
        self.began = began
        """When it was reached (``Clock.monotonic``)."""
        self.has_listed = False
        self.channel = channel
        self.stub = stub
        self.turn = threading.Lock()
        """Held while it is asked: the kubelet asks one question after another."""


VERSION: Final = "v1beta1"
SOCKET: Final = "kubelet.sock"
_MOST_BYTES: Final = 4 * 1024 * 1024
"""The longest message of a device plugin, as for the kubelet."""
_MOST_REGISTER_BYTES: Final = 64 * 1024
_WORKERS: Final = 8
_MOST_REGISTERING: Final = 2 * MOST_RESOURCES
"""Registrations that are answered or wait for it; one more is refused."""


@dataclass(frozen=True, slots=True)
class HostTimes:
    """In seconds."""

    allocate: float = 15
    """Longest time of one ``Allocate``."""
    dial: float = 10
    """Longest time until a device plugin that registers has answered."""
    unlisted: float = 30
    """After this time a device plugin that has registered and sent no list is logged."""
    pre_start: float = 10
    unlink: float = 30
    """After this time without its device plugin, the socket of a resource is removed: some register again then."""
    anew: float = 60
    """After this time without any device plugin, ``kubelet.sock`` is made anew, once for each loss."""


class PluginHost(DevicePlugins):
    """The kubelet's part of the device plugin API, version v1beta1. Thread-safe.

    Args:
        folder: what the device plugins mount in place of the kubelet's folder.
        refuse: the reason why this node cannot serve a resource; "" if it can.
    """

    def __init__(
        self,
        folder: str,
        registry: Registry,
        clock: Clock,
        log: Logger,
        refuse: Callable[[str], str] = lambda _: "",
        times: HostTimes = HostTimes(),
    ):
        self._folder = Path(folder)
        self._registry = registry
        self._metrics = registry.metrics
        self._clock = clock
        self._log = log
        self._refuse = refuse
        self._times = times
        self._lock = threading.Lock()
        self._tending = threading.Lock()
        self._plugins: dict[int, DevicePluginConnection] = {}
        """Connections by the number of the registration."""
        self._server: grpc.Server | None = None
        self._inode: int | None = None
        """Of our ``kubelet.sock``."""
        self._removed: set[str] = set()
        """File names of the sockets that the last start removed and whose device plugin was not told so."""
        self._unlinked: set[str] = set()
        """Resources whose sockets were removed since their device plugin was lost."""
        self._made_anew = False
        self._told: set[str] = set()
        """Resources of which it was logged that their device plugin sends no list."""

    def start(self) -> None:
        """Take over the folder: device plugins that are there register again.

        Raises:
            OperatorFault, OSError: the folder cannot be used; call again.
        """
        path = self._folder / SOCKET
        aside = self._folder / f"{SOCKET}.{secrets.token_hex(4)}"
        if len(os.fsencode(aside)) > MAX_SOCKET_PATH:
            raise OperatorFault(
                f"{aside}: too long for a socket; set kubeletplugin.deviceplugin.folder to a shorter path"
            )
        make_folder(self._folder)
        server = grpc.server(
            futures.ThreadPoolExecutor(_WORKERS, thread_name_prefix="device plugins"),
            options=[("grpc.max_receive_message_length", _MOST_REGISTER_BYTES)],
            maximum_concurrent_rpcs=_MOST_REGISTERING,
        )
        add: Any = stubs.add_RegistrationServicer_to_server
        add(_Registrar(self._register), server)
        try:
            server.add_insecure_port(f"unix:{aside}")
        except RuntimeError as error:
            raise OperatorFault(f"socket {aside}: cannot be opened: {error}") from error
        server.start()
        inode = aside.lstat().st_ino
        path.unlink(missing_ok=True)
        removed = set(self._sockets_of_plugins())
        for name in removed:
            (self._folder / name).unlink(missing_ok=True)
        with self._lock:
            self._removed = removed
        aside.rename(path)
        with self._lock:
            before, self._server, self._inode = self._server, server, inode
        self._registry.freeze(frozen=False)
        if before is not None:
            before.stop(grace=None)
        self._log.info("serving device plugins", socket=str(path))

    def close(self) -> None:
        """Stop serving, as at the end of the program: all sockets stay, and the next program takes over."""
        with self._lock:
            server, self._server = self._server, None
            plugins, own = list(self._plugins.values()), self._is_own()
        self._registry.freeze(frozen=True)
        if own:
            self._registry.save()
        if server is not None:
            server.stop(grace=None).wait()
        for plugin in plugins:
            plugin.channel.close()

    def tend(self) -> None:
        """See ``DevicePlugins``."""
        path = self._folder / SOCKET
        with self._lock:
            if self._server is None:
                return
            own = self._is_own()
        if not self._tending.acquire(blocking=False):
            return
        try:
            if own:
                self._tell_unlisted()
                self._wake_lost()
            elif is_socket(path) and has_listener(path):
                self._registry.freeze(frozen=True)
            else:
                self.start()
        except (OperatorFault, OSError) as error:
            self._log.error("device plugins cannot be served", folder=str(self._folder), reason=str(error))
        finally:
            self._tending.release()

    def _tell_unlisted(self) -> None:
        """Log each device plugin that has registered and lists no devices, once until it does."""
        now = self._clock.monotonic()
        with self._lock:
            late = {
                each.registration.resource: each.registration.endpoint
                for each in self._plugins.values()
                if not each.has_listed and now - each.began >= self._times.unlisted
            }
        for resource in late.keys() - self._told:
            self._log.warning(
                "device plugin has registered and lists no devices",
                resource=resource,
                endpoint=late[resource],
                remedy="see its log: it may wait for its driver; none of its devices are offered until it lists them",
            )
        self._told = set(late)

    def _wake_lost(self) -> None:
        """Make device plugins register again that do not do it by themselves."""
        lost = self._registry.lost_since()
        self._unlinked &= lost.keys()
        for resource, (endpoint, seconds) in lost.items():
            if seconds >= self._times.unlink and resource not in self._unlinked:
                self._unlinked.add(resource)
                if endpoint and is_socket(self._folder / endpoint):
                    (self._folder / endpoint).unlink(missing_ok=True)
        with self._lock:
            idle = not self._plugins
        if not lost:
            self._made_anew = False
        elif idle and not self._made_anew and max(seconds for _, seconds in lost.values()) >= self._times.anew:
            self._made_anew = True
            self.start()

    def allocate(self, resource: str, ids: tuple[str, ...]) -> PluginAnswer:
        """See ``DevicePlugins``."""
        registration = self._registry.current(resource)
        with self._lock:
            plugin = self._plugins.get(registration.number) if registration else None
        if registration is None or plugin is None:
            self._metrics.failed(resource, "not-connected")
            raise TransientFault(
                f"the device plugin of {resource} is not connected; if its pod runs on this node, delete it"
            )
        if not plugin.turn.acquire(timeout=self._times.allocate):
            self._metrics.failed(resource, "busy")
            raise TransientFault(f"the device plugin of {resource} is busy with another claim")
        began = self._clock.monotonic()
        try:
            return self._asked(plugin, registration, ids)
        except grpc.RpcError as error:
            raise self._refusal(registration, error) from error
        finally:
            self._metrics.answered(resource, self._clock.monotonic() - began)
            plugin.turn.release()

    def _asked(self, plugin: DevicePluginConnection, registration: Registration, ids: tuple[str, ...]) -> PluginAnswer:
        request = messages.AllocateRequest(container_requests=[messages.ContainerAllocateRequest(devices_ids=ids)])
        answers = plugin.stub.Allocate(request, timeout=self._times.allocate).container_responses
        if len(answers) != 1:
            self._metrics.failed(registration.resource, "answer")
            raise HardwareRefusal(
                f"the device plugin of {registration.resource} answered for {len(answers)} containers instead of one; "
                "see its log"
            )
        if registration.pre_start:
            ready = messages.PreStartContainerRequest(devices_ids=ids)
            plugin.stub.PreStartContainer(ready, timeout=self._times.pre_start)
        return answer_from(answers[0])

    def _refusal(self, registration: Registration, error: grpc.RpcError) -> HardwareRefusal:
        code, details = error.code().name, bounded(str(error.details()))
        resource = registration.resource
        if looks_for_its_pod(details):
            reason = (
                f"the device plugin of {resource} looks for the pod itself, which it cannot find where Lode allocates "
                f"({details}); run it under the kubelet, or the vendor's plain one here"
            )
            self._registry.refuse(resource, reason)
            self._metrics.refused(resource, "looks-for-pod")
            self._metrics.failed(resource, "looks-for-pod")
            return HardwareRefusal(reason)
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            self._metrics.failed(resource, "timeout")
            return HardwareRefusal(
                f"the device plugin of {resource} did not answer within {self._times.allocate:g} s; see its log"
            )
        self._metrics.failed(resource, "refused")
        return HardwareRefusal(f"the device plugin of {resource} refused: {code}: {details}; see its log")

    def _register(self, request: messages.RegisterRequest) -> None:
        try:
            self._take(request)
        except RefusedError as error:
            self._metrics.refused(request.resource_name, error.reason)
            raise

    def _take(self, request: messages.RegisterRequest) -> None:
        resource, endpoint = request.resource_name, request.endpoint
        if request.version != VERSION:
            raise RefusedError("version", f"version {request.version!r} is not supported; use {VERSION}")
        if reason := refusal_of(resource):
            raise RefusedError("name", f"resource {resource!r}: {reason}")
        if reason := self._refuse(resource):
            raise RefusedError("other-backend", f"resource {resource!r}: {reason}")
        if not endpoint or endpoint != Path(endpoint).name or endpoint == SOCKET:
            raise RefusedError("endpoint", f"endpoint {endpoint!r} is not a plain file name")
        if self._registry.is_ignored(resource):
            self._log.info("device plugin ignored", resource=resource)
            return
        if self._was_removed(endpoint):
            message = f"the socket {endpoint} was removed when Lode started; register again with a new one"
            raise RefusedError("unreachable", message, grpc.StatusCode.UNAVAILABLE)
        if not self._registry.has_room(resource):
            message = "this node serves as many resources as it can"
            raise RefusedError("full", message, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self._leave_time_to_list(resource, endpoint)
        registration = self._registry.begin(resource, endpoint)
        self._unlinked.discard(resource)
        plugin = self._dialled(registration)
        with self._lock:
            before = [each.registration.number for each in self._unlisted(resource)]
            self._plugins[registration.number] = plugin
        # So there are two connections to the device plugins of a resource at most: this one, and the one that counts.
        for number in before:
            self._close(number)
        name = f"device plugin {resource}"
        start_thread(name, partial(self._watch, plugin), partial(self._lose, plugin))
        self._log.info("device plugin registered", resource=resource, endpoint=endpoint)

    def _leave_time_to_list(self, resource: str, endpoint: str) -> None:
        """Refuse another device plugin of a resource while one has just registered. One may register again itself."""
        now = self._clock.monotonic()
        with self._lock:
            for each in self._unlisted(resource):
                if each.registration.endpoint != endpoint and now - each.began < self._times.dial:
                    message = (
                        f"the device plugin of {resource} at {each.registration.endpoint} has registered and not "
                        f"listed its devices yet; run one of them, or register again in {self._times.dial:g} s"
                    )
                    raise RefusedError("unlisted", message, grpc.StatusCode.UNAVAILABLE)

    def _unlisted(self, resource: str) -> list[DevicePluginConnection]:
        """The connections of a resource over which no list has come; call it with the lock."""
        return [
            each for each in self._plugins.values() if each.registration.resource == resource and not each.has_listed
        ]

    def _was_removed(self, endpoint: str) -> bool:
        """Whether our start has removed the socket while its device plugin waited for us. True only once: a device
        plugin may also serve its new socket a moment after it has registered."""
        with self._lock:
            known = endpoint in self._removed
            self._removed.discard(endpoint)
        return known and not is_socket(self._folder / endpoint)

    def _dialled(self, registration: Registration) -> DevicePluginConnection:
        endpoint = self._reachable(registration.endpoint)
        channel = channel_to(endpoint, ("grpc.max_receive_message_length", _MOST_BYTES))
        stub: Any = stubs.DevicePluginStub(channel)
        try:
            options = stub.GetDevicePluginOptions(messages.Empty(), timeout=self._times.dial, wait_for_ready=True)
        except grpc.RpcError as error:
            channel.close()
            message = (
                f"cannot be reached at {registration.endpoint}: {error.code().name}: {bounded(str(error.details()))}"
            )
            raise RefusedError("unreachable", message, grpc.StatusCode.UNAVAILABLE) from error
        started = Registration(
            registration.resource, registration.endpoint, registration.number, options.pre_start_required
        )
        return DevicePluginConnection(started, channel, stub, self._clock.monotonic())

    def _reachable(self, endpoint: str) -> str:
        path = self._folder / endpoint
        if len(os.fsencode(path)) > MAX_SOCKET_PATH:
            raise RefusedError("endpoint", f"endpoint {endpoint!r}: the name is too long")
        return str(path)

    def _watch(self, plugin: DevicePluginConnection) -> None:
        """Follow the lists of a device plugin until the connection ends."""
        reason = "the stream ended"
        try:
            for answer in plugin.stub.ListAndWatch(messages.Empty()):
                plugin.has_listed = True
                replaced = self._registry.listed(plugin.registration, reported_in(answer))
                if replaced is not None:
                    self._close(replaced.number)
        except grpc.RpcError as error:
            reason = f"{error.code().name}: {bounded(str(error.details()))}"
        except ValueError as error:  # the channel was closed before it was asked
            reason = str(error)
        self._lose(plugin, reason)

    def _lose(self, plugin: DevicePluginConnection, reason: str = "the thread that follows it ended") -> None:
        with self._lock:
            if not self._is_own():
                self._registry.freeze(frozen=True)
        if self._registry.lost(plugin.registration):
            self._log.warning("device plugin lost", resource=plugin.registration.resource, reason=reason)
        self._close(plugin.registration.number)

    def _close(self, number: int) -> None:
        with self._lock:
            plugin = self._plugins.pop(number, None)
        if plugin is not None:
            plugin.channel.close()

    def _is_own(self) -> bool:
        """Whether ``kubelet.sock`` is the one of this program."""
        with suppress(OSError):
            return (self._folder / SOCKET).lstat().st_ino == self._inode
        return False

    def _sockets_of_plugins(self) -> Iterator[str]:
        """Sockets of device plugins that have registered, and those on which nobody listens. Any other belongs to a
        device plugin that is about to register."""
        known = self._registry.endpoints
        for path in sorted(self._folder.iterdir()):
            if path.name != SOCKET and is_socket(path) and (path.name in known or not has_listener(path)):
                yield path.name


class _Registrar(stubs.RegistrationServicer):
    """``v1beta1.Registration``."""

    def __init__(self, register: Callable[[messages.RegisterRequest], None]):
        self._register = register

    def Register(self, request: messages.RegisterRequest, context: grpc.ServicerContext) -> messages.Empty:
        """Answer a registration."""
        try:
            self._register(request)
        except RefusedError as error:
            context.abort(error.code, str(error))
        return messages.Empty()
