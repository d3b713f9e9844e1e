"""The program around the controller: it leads, works, hands over quickly, and never goes on half alive."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller.__main__ import Apis, ControllerProcess, Inbox, connections, main, take_in
from driver.clock import SystemClock
from driver.kube.api import (
    LEASES,
    NAMESPACES,
    RESOURCE_CLAIMS,
    Api,
    ApiCall,
    Conflict,
    Forbidden,
    NotFound,
    Unavailable,
)
from driver.kube.client import KubeClient
from driver.kube.decorator import ApiDecorator
from driver.kube.reflector import Synced
from driver.observe import logger
from driver.settings import Settings
from memoryapi import MemoryApi
from tests.simulation.clock import VirtualClock
from tests.unit.controller.loop.world import GATE, ControllerWorld

# A thread that dies as it should may be noticed only while the next test runs.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

CONTROLLER = {"leaseSeconds": 3, "debugAddress": "", "verifyPolicies": False}
SETTINGS = Settings.model_validate({"observeAddress": "", "controller": CONTROLLER})


def blocking() -> ControllerWorld:
    """A world whose API keeps watches open, as a real one does."""
    world = ControllerWorld()
    world.api = MemoryApi(SystemClock(), blocking=True)
    world.api.create(NAMESPACES, {"metadata": {"name": "lode-system"}})
    world.add_class("gpu.lode.dev", 'device.driver == "lode.dev"')
    world.add_node("n1", 2)
    return world


@contextmanager
def running(api: Any, settings: Settings = SETTINGS) -> Iterator[tuple[ControllerProcess, list[int]]]:
    process, status = (
        ControllerProcess(Apis(api, api, api), SystemClock(), settings, logger("test"), {}),
        list[int](),
    )
    thread = threading.Thread(target=lambda: status.append(process.run()))
    thread.start()
    try:
        yield process, status
    finally:
        process.stop()
        thread.join(timeout=10)
        assert not thread.is_alive()


def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it holds; a program that does not listen yet is asked again."""
    until = time.monotonic() + 10
    while True:
        try:
            if holds():
                return
        except ConnectionRefusedError:
            pass
        assert time.monotonic() < until
        time.sleep(0.01)


def leads(process: ControllerProcess) -> bool:
    return process.metrics.registry.get_sample_value("lode_controller_leader") == 1


def test_it_leads_works_and_hands_the_lease_over_when_stopped() -> None:
    """The lease would last for longer than ``running`` waits."""
    world, settings = blocking(), {"observeAddress": "", "controller": {**CONTROLLER, "leaseSeconds": 60}}
    with running(world.api, Settings.model_validate(settings)) as (_, status):
        world.add_claim("a")
        world.add_pod("p", "a")
        eventually(lambda: world.gates("p") == [])
        assert world.devices("a") == ["n1/gpu-0"]
    assert status == [0]
    assert world.api.get(LEASES, "lode-controller", "lode-system")["spec"].get("holderIdentity", "") == ""


def test_who_holds_what_is_told_on_the_debug_address_alone() -> None:
    world = blocking()
    public, private = (f"127.0.0.1:{port}" for port in free_ports(2))
    settings = {"observeAddress": public, "controller": {**CONTROLLER, "debugAddress": private}}
    world.add_claim("a")
    world.add_pod("p", "a")
    with running(world.api, Settings.model_validate(settings)):
        eventually(lambda: world.gates("p") == [])
        assert get(private, "/debug/usage") == (200, '{"n1/lode.dev/gpu-0/": "default/a"}')
        assert get(public, "/readyz") == (200, "ok\n")
        assert get(public, "/debug/usage")[0] == 404


def test_the_leader_serves_the_fleet() -> None:
    world = blocking()
    (public,) = (f"127.0.0.1:{port}" for port in free_ports(1))
    with running(world.api, Settings.model_validate({"observeAddress": public, "controller": CONTROLLER})) as (
        process,
        _,
    ):
        eventually(lambda: leads(process) and 'lode_card_info{node="n1",card="gpu-0"' in get(public, "/metrics")[1])


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def get(address: str, path: str) -> tuple[int, str]:
    connection = HTTPConnection(address, timeout=10)
    with closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_policies_that_are_not_in_force_make_the_program_unready_and_idle() -> None:
    world = blocking()
    public, private = (f"127.0.0.1:{port}" for port in free_ports(2))
    settings = {"observeAddress": public, "controller": {**CONTROLLER, "verifyPolicies": True, "debugAddress": private}}
    world.add_claim("a")
    world.add_pod("p", "a")
    with running(WithoutPolicies(world.api), Settings.model_validate(settings)) as (process, _):
        eventually(lambda: "single-allocator.lode.dev: does not exist" in get(public, "/readyz")[1])
        eventually(lambda: leads(process))
        for _ in range(20):
            # The main loop answers between two decisions, so it has had the time for some.
            assert get(private, "/debug/usage") == (200, "{}")
    assert world.gates("p") == [GATE]


def test_a_lease_that_cannot_be_written_makes_the_program_unready_until_it_can() -> None:
    world = blocking()
    (public,) = (f"127.0.0.1:{port}" for port in free_ports(1))
    api = WithoutLease(world.api)
    world.add_claim("a")
    world.add_pod("p", "a")
    with (
        capture_logs() as lines,
        running(api, Settings.model_validate({"observeAddress": public, "controller": CONTROLLER})),
    ):
        eventually(lambda: "Lease lode-system/lode-controller cannot be read or written" in get(public, "/readyz")[1])
        eventually(lambda: any(line["event"] == "cannot use the Lease" for line in lines))
        assert world.gates("p") == [GATE]
        api.forbidden = False
        eventually(lambda: world.gates("p") == [])
        eventually(lambda: get(public, "/readyz") == (200, "ok\n"))


class WithoutLease(ApiDecorator):
    """An API that does not let the controller create or write its Lease."""

    forbidden = True

    def around(self, call: ApiCall, proceed: Callable[[], Any]) -> Any:
        if self.forbidden and call.resource == LEASES and call.verb in ("create", "update"):
            raise Forbidden("no right to write leases", status=403, reason="Forbidden")
        return proceed()


class WithoutPolicies(ApiDecorator):
    """An API without any admission policy."""

    def around(self, call: ApiCall, proceed: Callable[[], Any]) -> Any:
        if "admission" in call.resource.group:
            raise NotFound("no such policy", status=404)
        return proceed()


def test_a_program_that_loses_the_lease_becomes_a_standby_and_leads_again_when_it_is_free() -> None:
    world = blocking()
    with running(world.api) as (process, status):
        eventually(lambda: leads(process))
        eventually(lambda: _taken(world))
        eventually(lambda: not leads(process))
        world.add_claim("a")
        world.add_pod("p", "a")
        assert world.gates("p") == [GATE]
        eventually(lambda: _released(world))
        eventually(lambda: world.gates("p") == [])
    assert status == [0]


def _taken(world: ControllerWorld) -> bool:
    return _rewritten(world, "somebody else", 60)


def _released(world: ControllerWorld) -> bool:
    return _rewritten(world, "", 1)


def _rewritten(world: ControllerWorld, holder: str, seconds: int) -> bool:
    lease = world.api.get(LEASES, "lode-controller", "lode-system")
    lease["spec"] |= {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    try:
        world.api.update(LEASES, lease)
    except Conflict:
        return False
    return True


def test_a_second_replica_waits_and_takes_over() -> None:
    world = blocking()
    with running(world.api) as (first, _):
        eventually(lambda: world.api.list(LEASES).items != [])
        with running(world.api):
            time.sleep(0.1)
            first.stop()
            world.add_claim("a")
            world.add_pod("p", "a")
            eventually(lambda: world.gates("p") == [])


class Failing:
    """An API on which one kind of call breaks in a way nobody foresaw."""

    def __init__(self, api: MemoryApi, error: Exception):
        self._api = api
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    def watch(self, resource: Any, **options: Any) -> Any:
        if resource == RESOURCE_CLAIMS:
            raise self._error
        return self._api.watch(resource, **options)


def test_a_thread_that_dies_takes_the_program_with_it() -> None:
    world = blocking()
    with running(Failing(world.api, ZeroDivisionError("a bug"))) as (_, status):
        eventually(lambda: status == [1])


def test_a_watch_that_fails_is_tried_again_and_nothing_ends() -> None:
    world = blocking()
    with running(Failing(world.api, Unavailable("no answer"))) as (_, status):
        time.sleep(0.5)
        assert status == []


class Hooked(ApiDecorator):
    """An API on which the test does something before each allocation."""

    def __init__(self, api: Api, before_allocation: Callable[[], None]):
        super().__init__(api)
        self._before_allocation = before_allocation

    def before(self, call: ApiCall) -> None:
        if call.resource == RESOURCE_CLAIMS and call.subresource == "status":
            self._before_allocation()


def holder(world: ControllerWorld) -> str:
    lease = world.api.get(LEASES, "lode-controller", "lode-system")
    return str(lease["spec"].get("holderIdentity", ""))


def test_when_it_is_stopped_writes_under_way_end_and_only_then_the_lease_is_released() -> None:
    world = blocking()
    arrived, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        arrived.set()
        go_on.wait(10)

    with running(Hooked(world.api, wait)) as (process, status):
        world.add_claim("a")
        world.add_pod("p", "a")
        assert arrived.wait(10)
        process.stop()
        assert holder(world)
        go_on.set()
    assert (world.devices("a"), world.gates("p")) == (["n1/gpu-0"], [])
    assert (status, holder(world)) == ([0], "")


def test_the_lease_is_not_released_while_a_write_does_not_end() -> None:
    world = blocking()
    arrived, go_on = threading.Event(), threading.Event()

    def hang() -> None:
        arrived.set()
        go_on.wait(10)

    settings = {"observeAddress": "", "controller": {**CONTROLLER, "writeSeconds": 0.05}}
    with running(Hooked(world.api, hang), Settings.model_validate(settings)) as (process, status):
        world.add_claim("a")
        world.add_pod("p", "a")
        assert arrived.wait(10)
        process.stop()
        eventually(lambda: status == [0])
        assert holder(world), "the write may still be made"
        go_on.set()


def test_as_many_pods_are_written_at_once_as_the_settings_say() -> None:
    world = blocking()
    both = threading.Barrier(2, timeout=10)

    def meet() -> None:
        both.wait()

    settings = {"observeAddress": "", "controller": {**CONTROLLER, "writesInFlight": 2}}
    with running(Hooked(world.api, meet), Settings.model_validate(settings)):
        for name in "ab":
            world.add_claim(name)
            world.add_pod(f"p{name}", name)
        eventually(lambda: world.gates("pa") == world.gates("pb") == [])


def test_a_long_list_is_taken_in_piece_by_piece() -> None:
    clock, inbox, taken = VirtualClock(), Inbox(), list[int]()

    def handle(_: object) -> None:
        clock.advance(0.08)
        taken[-1] += 1

    for number in range(7):
        inbox.put(Synced(RESOURCE_CLAIMS, frozenset(), str(number)))
    while not inbox.empty():
        taken.append(0)
        take_in(inbox, 0, handle, clock)
    assert taken == [3, 3, 1], "after a fifth of a second, the program does what else is due"


def test_the_lease_is_not_released_while_a_write_is_in_doubt() -> None:
    world = blocking()

    def lose() -> None:
        raise Unavailable("no answer")

    with running(Hooked(world.api, lose)) as (process, _):
        world.add_claim("a")
        world.add_pod("p", "a")
        lost = {"outcome": "unavailable"}
        eventually(
            lambda: process.metrics.registry.get_sample_value("lode_controller_decisions_total", lost) is not None
        )
    assert holder(world)


def test_writes_and_renewals_have_connections_and_time_outs_of_their_own(tmp_path: Path) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    document = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "x", **document}))
    settings = Settings.model_validate({"controller": {"leaseSeconds": 15, "writeSeconds": 4}})
    found = connections(str(file), settings)
    seconds = [api.call_seconds for api in (found.reading, found.writing, found.leasing) if isinstance(api, KubeClient)]
    assert seconds == [0, 4, 3], "a renewal is asked for more than once before the lease has run out"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("controller: {polcy: x}", "controller.polcy"),
        ("controller: {policy: tightest}", "controller.policy"),
        (None, "No such file"),
    ],
)
def test_bad_settings_are_told_with_field_and_end_the_program(
    content: str | None, said: str, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "settings.yaml"
    if content is not None:
        file.write_text(content)
    assert main(["--settings", str(file)]) == 2
    assert said in capsys.readouterr().err
