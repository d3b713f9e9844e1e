"""The process of a device plugin: a real gRPC server, and a thread that registers it and watches the kubelet's folder.

It runs in the process of the test. ``kill`` leaves what a killed process leaves: a socket without a listener.
"""

import os
import queue
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import grpc

from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as pb
from kubeletplugin.proto import deviceplugin_v1beta1_pb2_grpc
from tests.fakes.deviceplugin.folder import FolderEvent, watch
from tests.fakes.deviceplugin.script import HEALTHY, UNHEALTHY, Crashed, Listed, Reaction, Refused, Script

HOST = "kubelet.sock"
_SERVICE = "v1beta1.DevicePlugin"
_LOOK_SECONDS = 0.005
_DIALLING = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
    ("grpc.max_reconnect_backoff_ms", 100),
]


@dataclass(frozen=True, slots=True)
class Called:
    """A call of the host."""

    name: str
    ids: tuple[str, ...] = ()
    start: int = 0
    """The start of the plugin in which it was called, from 1."""


class _Instance:
    """One server of the plugin, from a start to the next. A plugin that starts anew has another one."""

    def __init__(self, plugin: "ScriptedPlugin", path: Path, bound: Path, start: int):
        self.path = path
        self.start = start
        self.stopped = threading.Event()
        self._bound = bound
        self._server = grpc.server(futures.ThreadPoolExecutor(16, thread_name_prefix="scripted plugin"))
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, plugin.handlers(self)),))
        # The server removes the name that it has bound when it stops. Under the plugin's name is a link, which stays
        # as that of a killed process does.
        bound.unlink(missing_ok=True)
        self._server.add_insecure_port(f"unix:{bound}")
        self._server.start()
        path.unlink(missing_ok=True)
        os.link(bound, path)

    def stop(self, *, removing: bool) -> None:
        """End all calls, as when the process ends."""
        self.stopped.set()
        self._server.stop(grace=None)
        self._bound.unlink(missing_ok=True)
        if removing:
            self.path.unlink(missing_ok=True)


class ScriptedPlugin:
    """A device plugin in a folder in which something plays the kubelet. Thread-safe.

    Args:
        folder: where the plugin finds ``kubelet.sock`` and puts its socket.
        own: a folder of its own on the same file system, which the host does not see.
    """

    def __init__(self, folder: Path, own: Path, script: Script):
        self.folder = folder
        self.script = script
        self.calls: list[Called] = []
        """The calls of the host, in order, over all processes."""
        self.registrations: list[str] = []
        """The answers to its registrations, in order: "" for success, else the host's error."""
        self.streams = 0
        """Streams of lists that the host has open."""
        self._own = own
        self._lock = threading.RLock()
        self._instance: _Instance | None = None
        self._life: threading.Thread | None = None
        self._ending = threading.Event()
        self._starts = 0
        self._happened: queue.SimpleQueue[FolderEvent | _Instance | None] = queue.SimpleQueue()
        """What the process has to react to: an event of the folder, an instance whose stream the host ended, its
        end."""
        self._lists = 0
        """Counts the changes of the devices, which open streams wait for."""
        self._changed = threading.Condition(self._lock)

    # What tests do

    def start(self) -> None:
        """Start the process, as the kubelet starts its container."""
        assert not self.alive, "the process runs"
        self._ending = threading.Event()
        self._happened = queue.SimpleQueue()
        self._life = threading.Thread(target=self._live, args=(self._ending, self._happened), daemon=True)
        self._life.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._life is not None and self._life.is_alive() and not self._ending.is_set()

    def kill(self) -> None:
        """SIGKILL: calls and streams end, and the socket stays."""
        self._end(removing=False)
        self._join()

    def terminate(self) -> None:
        """SIGTERM: the plugin removes its socket."""
        self._end(removing=True)
        self._join()

    def report(self, *devices: Listed) -> None:
        """The plugin has these devices from now on, and tells each stream."""
        self.play(replace(self.script, devices=devices))

    def fail(self, device: str) -> None:
        """The device breaks, and the plugin tells each stream."""
        self.report(*(replace(each, health=UNHEALTHY) if each.id == device else each for each in self.script.devices))

    def play(self, script: Script) -> None:
        """The plugin behaves in this way from now on; its devices are told each stream."""
        with self._changed:
            self.script = script
            self._lists += 1
            self._changed.notify_all()

    def called(self, name: str) -> list[Called]:
        """The calls of that name so far."""
        return [call for call in self.calls if call.name == name]

    @property
    def endpoint(self) -> str:
        """The name of the present socket; "" if there is none."""
        return self._instance.path.name if self._instance else ""

    # The life of the process

    def _live(self, ending: threading.Event, happened: "queue.SimpleQueue[FolderEvent | _Instance | None]") -> None:
        unwatch = watch(self.folder, happened.put)
        try:
            self._serve_and_register(ending)
            while (event := happened.get()) is not None and not ending.is_set():
                if isinstance(event, FolderEvent):
                    self._react_to(event, ending)
                elif event is self._instance:
                    self._react_to_end_of_stream(ending)
        finally:
            unwatch()

    def _react_to_end_of_stream(self, ending: threading.Event) -> None:
        if self.script.ends_with_stream:
            self._end(removing=False)
        elif self.script.reaction is Reaction.STREAM_ENDED:
            self._restart(ending)

    def _react_to(self, event: FolderEvent, ending: threading.Event) -> None:
        host, created = event.name == HOST, event.happening == "created"
        own = self._instance is not None and event.name == self._instance.path.name
        match self.script.reaction:
            case Reaction.HOST_CREATED if host and created:
                self._restart(ending)
            case Reaction.HOST_REMOVED_AND_CREATED if host and not created:
                self._stop_instance(removing=True)
            case Reaction.HOST_REMOVED_AND_CREATED if host and self._instance is None:
                self._serve_and_register(ending)
            case Reaction.OWN_SOCKET_REMOVED if own and not created and self._is_removed(event.name):
                self._restart(ending)
            case _:
                pass

    def _is_removed(self, name: str) -> bool:
        """Whether the host removed it: the event comes just before."""
        until = time.monotonic() + 1.0
        while (self.folder / name).exists() and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
        return not (self.folder / name).exists()

    def _restart(self, ending: threading.Event) -> None:
        self._stop_instance(removing=True)
        self._serve_and_register(ending)

    def _serve_and_register(self, ending: threading.Event) -> None:
        """Serve and register until the host takes it; vendors' plugins begin anew after a refusal."""
        while not ending.is_set():
            script = self.script
            endpoint = self._serve(script, ending)
            ending.wait(script.registers_after_seconds)
            if not ending.is_set() and self._register(script, endpoint, ending):
                return
            self._stop_instance(removing=True)
            if script.ends_without_host:
                self._end(removing=True)
                return
            ending.wait(script.register_again_seconds)

    def _serve(self, script: Script, ending: threading.Event) -> str:
        """Serve; returns the endpoint to register."""
        self._starts += 1
        if self._starts > 1 and script.forgets_health:
            with self._changed:
                self.report(*(replace(each, health=HEALTHY) for each in self.script.devices))
        stem, suffix = os.path.splitext(script.endpoint)  # noqa: PTH122 -- a name, not a path
        name = f"{stem}-{self._starts}{suffix}" if script.stamps_endpoint else script.endpoint
        with self._lock:
            if not ending.is_set():
                bound = self._own / f"{name}.{self._starts}"
                self._instance = _Instance(self, self.folder / name, bound, self._starts)
        return script.announced_endpoint or name

    def _register(self, script: Script, endpoint: str, ending: threading.Event) -> bool:
        request = pb.RegisterRequest(version=script.version, endpoint=endpoint, resource_name=script.resource)
        times = range(script.registers_times)
        return all(self._ask_host(request, script.host_seconds, ending) == "" for _ in times)

    def _ask_host(self, request: pb.RegisterRequest, seconds: float, ending: threading.Event) -> str:
        """The host's refusal; "" if it has registered the plugin."""
        with grpc.insecure_channel(f"unix:{self.folder / HOST}", _DIALLING) as channel:
            stub: Any = deviceplugin_v1beta1_pb2_grpc.RegistrationStub(channel)
            call = stub.Register.future(request, wait_for_ready=True, timeout=seconds)
            while not call.done():
                if ending.wait(_LOOK_SECONDS):
                    call.cancel()
                    return "ended"
            code = call.code()
            if code is grpc.StatusCode.DEADLINE_EXCEEDED:
                return "no host"
            self.registrations.append("" if code is grpc.StatusCode.OK else call.details() or code.name)
            return self.registrations[-1]

    def _stop_instance(self, *, removing: bool) -> None:
        with self._lock:
            instance, self._instance = self._instance, None
        if instance:
            # Without the lock: the server calls ``_note_end`` for each stream.
            instance.stop(removing=removing)
        with self._changed:
            self._changed.notify_all()

    def _end(self, *, removing: bool) -> None:
        self._ending.set()
        self._stop_instance(removing=removing)
        self._happened.put(None)

    def _join(self) -> None:
        if self._life is not None and self._life is not threading.current_thread():
            self._life.join(timeout=10)

    # The calls of the host

    def handlers(self, instance: _Instance) -> dict[str, Any]:
        """The methods of the service, for one server."""

        def unary(method: Any, request: Any) -> Any:
            def answer(message: Any, context: grpc.ServicerContext) -> Any:
                try:
                    return method(message)
                except Crashed:
                    # The call ends as it does when a process dies: without an answer of the plugin.
                    self._end(removing=False)
                    context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
                except Refused as refusal:
                    context.abort(grpc.StatusCode.UNKNOWN, str(refusal))

            return grpc.unary_unary_rpc_method_handler(answer, request.FromString, lambda m: m.SerializeToString())

        def stream(_request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            return self._stream(instance, context)

        found = {
            "Allocate": unary(self._allocate, pb.AllocateRequest),
            "PreStartContainer": unary(self._pre_start, pb.PreStartContainerRequest),
            "GetPreferredAllocation": unary(self._preferred, pb.PreferredAllocationRequest),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                stream, pb.Empty.FromString, lambda message: message.SerializeToString()
            ),
        }
        if self.script.has_options:
            found["GetDevicePluginOptions"] = unary(self._options, pb.Empty)
        return found

    def _note(self, name: str, ids: tuple[str, ...] = ()) -> None:
        self.calls.append(Called(name, ids, self._starts))

    def _options(self, _message: Any) -> Any:
        self._note("GetDevicePluginOptions")
        return pb.DevicePluginOptions(
            pre_start_required=self.script.pre_start_required,
            get_preferred_allocation_available=self.script.offers_preferred,
        )

    def _allocate(self, message: Any) -> Any:
        response = pb.AllocateResponse()
        for container in message.container_requests:
            ids = tuple(container.devices_ids)
            self._note("Allocate", ids)
            if (answer := self.script.allocate(ids)) is not None:
                response.container_responses.append(answer.message())
        return response

    def _pre_start(self, message: Any) -> Any:
        self._note("PreStartContainer", tuple(message.devices_ids))
        if self.script.pre_start_fails:
            raise Refused(self.script.pre_start_fails)
        return pb.PreStartContainerResponse()

    def _preferred(self, _message: Any) -> Any:
        self._note("GetPreferredAllocation")
        if not self.script.offers_preferred:
            raise Crashed
        return pb.PreferredAllocationResponse()

    def _stream(self, instance: _Instance, context: grpc.ServicerContext) -> Iterator[Any]:
        self.calls.append(Called("ListAndWatch", start=instance.start))
        ended = threading.Event()
        if not context.add_callback(lambda: self._note_end(instance, ended)):
            return
        with self._changed:
            self.streams += 1
        ended.wait(self.script.first_list_after_seconds)
        told, sent = -1, 0
        while context.is_active() and not instance.stopped.is_set():
            with self._changed:
                while told == self._lists and not ended.is_set() and not instance.stopped.is_set():
                    self._changed.wait(1.0)
                told, devices, limit = self._lists, self.script.devices, self.script.breaks_after_lists
            if ended.is_set() or instance.stopped.is_set():
                break
            if limit is not None and sent >= limit:
                context.abort(grpc.StatusCode.UNKNOWN, "the stream is broken")
            yield pb.ListAndWatchResponse(devices=[_message(device) for device in devices])
            sent += 1
            if limit is not None and sent >= limit:
                context.abort(grpc.StatusCode.UNKNOWN, "the stream is broken")

    def _note_end(self, instance: _Instance, ended: threading.Event) -> None:
        ended.set()
        with self._changed:
            self.streams -= 1
            self._changed.notify_all()
        if not instance.stopped.is_set():
            self._happened.put(instance)


def _message(device: Listed) -> pb.Device:
    if not device.numa:
        return pb.Device(ID=device.id, health=device.health)
    nodes = [pb.NUMANode(ID=node) for node in device.numa]
    return pb.Device(ID=device.id, health=device.health, topology=pb.TopologyInfo(nodes=nodes))
