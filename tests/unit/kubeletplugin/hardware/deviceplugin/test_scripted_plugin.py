"""The scripted device plugin does what it is told, as a host of few lines sees it."""

import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as pb
from kubeletplugin.proto import deviceplugin_v1beta1_pb2_grpc
from kubeletplugin.sockets import channel_to
from tests.fakes.deviceplugin.plugin import HOST, ScriptedPlugin
from tests.fakes.deviceplugin.script import MOST_BYTES, TOO_LARGE, Answer, Listed, Reaction, Refused, Script, many
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import comes_true

SECONDS = 10.0


class SmallHost:
    """Takes registrations, as little of a kubelet as there can be."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.registered: list[pb.RegisterRequest] = []
        self.refusal = ""
        self._number = 0
        self._server: grpc.Server | None = None

    def start(self, *, renaming: bool = False) -> None:
        """Serve; ``renaming`` puts the socket over the one that is there."""
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handler: Any = grpc.unary_unary_rpc_method_handler(
            self._register, pb.RegisterRequest.FromString, lambda message: message.SerializeToString()
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": handler}),)
        )
        self._number += 1
        bound = self.folder / f"host-{self._number}"
        self._server.add_insecure_port(f"unix:{bound}")
        self._server.start()
        if not renaming:
            (self.folder / HOST).unlink(missing_ok=True)
        bound.rename(self.folder / HOST)

    def stop(self) -> None:
        """Stop serving; the name stays, without a listener."""
        if self._server:
            self._server.stop(grace=None).wait()

    def _register(self, request: Any, context: grpc.ServicerContext) -> Any:
        if self.refusal:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        self.registered.append(request)
        return pb.Empty()

    def endpoints(self) -> list[str]:
        """Of the registrations so far."""
        return [request.endpoint for request in self.registered]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "host"
    made.mkdir()
    return made


@pytest.fixture
def host(folder: Path) -> Iterator[SmallHost]:
    host = SmallHost(folder)
    yield host
    host.stop()


Start = Callable[..., ScriptedPlugin]


@pytest.fixture
def start(folder: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[ScriptedPlugin] = []

    def begin(**script: Any) -> ScriptedPlugin:
        plugin = ScriptedPlugin(folder, tmp_path, Script(**script))
        plugin.start()
        started.append(plugin)
        return plugin

    yield begin
    for plugin in started:
        plugin.kill()


class Asking:
    """A connection to the plugin."""

    def __init__(self, plugin: ScriptedPlugin):
        self.channel = channel_to(plugin.folder / plugin.endpoint)
        self.stub: Any = deviceplugin_v1beta1_pb2_grpc.DevicePluginStub(self.channel)

    def stream(self) -> Any:
        return self.stub.ListAndWatch(pb.Empty())

    def allocate(self, *ids: str) -> Any:
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        return self.stub.Allocate(request, timeout=SECONDS)


def test_it_registers_with_a_host_that_is_there_and_with_one_that_comes(host: SmallHost, start: Start) -> None:
    plugin = start()
    host.start()
    assert comes_true(lambda: "" in plugin.registrations)
    request, *_ = host.registered  # it may have seen the host come while it was registering
    assert (request.version, request.resource_name, request.endpoint) == ("v1beta1", "example.com/card", "example.sock")


@pytest.mark.parametrize(
    ("reaction", "unlinked", "returns"),
    [
        (Reaction.HOST_CREATED, (), True),
        (Reaction.HOST_REMOVED_AND_CREATED, (), False),
        (Reaction.HOST_REMOVED_AND_CREATED, (HOST,), True),
        (Reaction.OWN_SOCKET_REMOVED, (HOST,), False),
        (Reaction.OWN_SOCKET_REMOVED, ("example.sock",), True),
        (Reaction.NOTHING, (HOST, "example.sock"), False),
    ],
)
def test_a_host_that_starts_again_is_noticed_by_what_the_plugin_looks_at(
    host: SmallHost, start: Start, folder: Path, reaction: Reaction, unlinked: tuple[str, ...], returns: bool
) -> None:
    host.start()
    plugin = start(reaction=reaction)
    assert comes_true(lambda: plugin.registrations == [""])
    host.stop()
    for name in unlinked:
        (folder / name).unlink()
    host.start(renaming=HOST not in unlinked)
    assert comes_true(lambda: len(host.registered) == 2, SECONDS if returns else 0.5) is returns


def test_the_end_of_a_stream_starts_some_anew_and_ends_others(host: SmallHost, start: Start) -> None:
    host.start()
    restarting = start(reaction=Reaction.STREAM_ENDED)
    ending = start(endpoint="other.sock", ends_with_stream=True)
    assert comes_true(lambda: len(host.registered) == 2)
    for plugin in (restarting, ending):
        stream = Asking(plugin).stream()
        next(stream)
        stream.cancel()
    assert comes_true(lambda: len(host.registered) == 3 and not ending.alive)
    assert restarting.alive


def test_each_start_can_have_a_socket_of_another_name(host: SmallHost, start: Start, folder: Path) -> None:
    host.start()
    plugin = start(stamps_endpoint=True)
    assert comes_true(lambda: host.endpoints() == ["example-1.sock"])
    plugin.kill()
    assert (folder / "example-1.sock").is_socket(), "a killed process leaves its socket"
    plugin.start()
    assert comes_true(lambda: host.endpoints() == ["example-1.sock", "example-2.sock"])
    plugin.terminate()
    assert not (folder / "example-2.sock").exists()


def test_a_refused_registration_is_repeated_or_the_end(host: SmallHost, start: Start) -> None:
    host.start()
    host.refusal = "no"
    patient, impatient = start(), start(endpoint="other.sock", ends_without_host=True)
    assert comes_true(lambda: not impatient.alive and "no" in patient.registrations)
    host.refusal = ""
    assert comes_true(lambda: patient.registrations[-1:] == [""])
    assert (set(patient.registrations[:-1]), host.endpoints()) == ({"no"}, ["example.sock"])


def test_a_plugin_may_end_without_a_host(start: Start) -> None:
    plugin = start(ends_without_host=True, host_seconds=0.2)
    assert comes_true(lambda: not plugin.alive)


def test_one_registers_twice_and_late(host: SmallHost, start: Start) -> None:
    host.start()
    start(registers_times=2, registers_after_seconds=0.1)
    assert comes_true(lambda: host.endpoints() == ["example.sock"] * 2)


def test_each_stream_gets_the_list_and_its_changes(host: SmallHost, start: Start) -> None:
    host.start()
    plugin = start(devices=(Listed("a", numa=(-1, 1)), Listed("b"), Listed("b")))
    assert comes_true(lambda: len(host.registered) == 1)
    stream = Asking(plugin).stream()
    first = next(stream)
    assert [device.ID for device in first.devices] == ["a", "b", "b"]
    assert [node.ID for node in first.devices[0].topology.nodes] == [-1, 1]
    plugin.fail("a")
    assert [device.health for device in next(stream).devices] == ["Unhealthy", "Healthy", "Healthy"]


@pytest.mark.parametrize(("devices", "fits"), [(many(10_000), True), (TOO_LARGE, False)])
def test_lists_have_any_size(host: SmallHost, start: Start, devices: tuple[Listed, ...], fits: bool) -> None:
    host.start()
    plugin = start(devices=devices)
    assert comes_true(lambda: len(host.registered) == 1)
    stream = Asking(plugin).stream()
    if fits:
        assert len(next(stream).devices) == len(devices)
    else:
        with pytest.raises(grpc.RpcError, match=str(MOST_BYTES)):
            next(stream)


def test_a_stream_breaks_when_it_is_told_to(host: SmallHost, start: Start) -> None:
    host.start()
    plugin = start(breaks_after_lists=1)
    assert comes_true(lambda: len(host.registered) == 1)
    stream = Asking(plugin).stream()
    next(stream)
    with pytest.raises(grpc.RpcError, match="broken"):
        next(stream)


def test_a_killed_plugin_ends_streams_and_calls(host: SmallHost, start: Start) -> None:
    host.start()
    waiting = threading.Event()

    def hang(_ids: object) -> Answer:
        waiting.wait(SECONDS)
        return Answer()

    plugin = start(allocate=hang)
    assert comes_true(lambda: len(host.registered) == 1)
    asking = Asking(plugin)
    stream = asking.stream()
    next(stream)
    called = futures.ThreadPoolExecutor(1).submit(asking.allocate, "card-a")
    assert comes_true(lambda: len(plugin.called("Allocate")) == 1)
    plugin.kill()
    with pytest.raises(grpc.RpcError):
        next(stream)
    with pytest.raises(grpc.RpcError):
        called.result()
    waiting.set()


def test_answers_are_those_of_the_script(host: SmallHost, start: Start) -> None:
    def answer(ids: Any) -> Answer | None:
        if tuple(ids) == ("nothing",):
            return None
        if "refused" in ids:
            raise Refused("invalid request: unknown device")
        return Answer(envs={"CARDS": ",".join(ids)}, annotations={"a": "b"}, cdi_devices=("v.com/c=1",))

    host.start()
    plugin = start(allocate=answer)
    assert comes_true(lambda: len(host.registered) == 1)
    asking = Asking(plugin)
    (given,) = asking.allocate("x", "y").container_responses
    assert (dict(given.envs), dict(given.annotations)) == ({"CARDS": "x,y"}, {"a": "b"})
    assert [device.name for device in given.cdi_devices] == ["v.com/c=1"]
    assert not asking.allocate("nothing").container_responses
    with pytest.raises(grpc.RpcError, match="unknown device"):
        asking.allocate("refused")


def test_options_and_what_they_name(host: SmallHost, start: Start) -> None:
    host.start()
    with_options = start(pre_start_required=True, pre_start_fails="busy")
    without = start(endpoint="other.sock", has_options=False)
    assert comes_true(lambda: len(host.registered) == 2)
    asking = Asking(with_options)
    assert asking.stub.GetDevicePluginOptions(pb.Empty()).pre_start_required
    with pytest.raises(grpc.RpcError, match="busy"):
        asking.stub.PreStartContainer(pb.PreStartContainerRequest(devices_ids=["card-a"]))
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        Asking(without).stub.GetDevicePluginOptions(pb.Empty())


def test_a_call_that_the_options_do_not_name_ends_the_process(host: SmallHost, start: Start) -> None:
    host.start()
    plugin = start()
    assert comes_true(lambda: len(host.registered) == 1)
    with pytest.raises(grpc.RpcError):
        Asking(plugin).stub.GetPreferredAllocation(pb.PreferredAllocationRequest())
    assert not plugin.alive


def test_a_plugin_whose_socket_was_removed_still_answers(host: SmallHost, start: Start, folder: Path) -> None:
    host.start()
    plugin = start()
    assert comes_true(lambda: len(host.registered) == 1)
    asking = Asking(plugin)
    asking.allocate("card-a")
    (folder / "example.sock").unlink()
    assert asking.allocate("card-b").container_responses
