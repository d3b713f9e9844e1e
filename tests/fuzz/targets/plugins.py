"""The messages of a vendor's device plugin: whatever it says, devices of others are published and keep their health."""

from collections.abc import Callable
from typing import Final, TypeVar

from google.protobuf.message import DecodeError

from driver.deviceplugins import DevicePluginSettings, ResourceSettings
from driver.kinds import EVERY_OFFER
from driver.names import Names
from driver.observe import logger
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.answers import edits_from, from_text, to_text
from kubeletplugin.hardware.deviceplugin.cdispecs import edits_of
from kubeletplugin.hardware.deviceplugin.host import answer_from, reported_in
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
from kubeletplugin.hardware.deviceplugin.refusals import refusal_of
from kubeletplugin.hardware.deviceplugin.registry import Registry
from kubeletplugin.hardware.deviceplugin.remembered import Known
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.hardware.place import Place
from kubeletplugin.hardware.port import HardwareRefusal
from kubeletplugin.inventory import NO_RESTRICTIONS, Fabric, build_inventory
from kubeletplugin.proto import deviceplugin_v1beta1_pb2 as messages
from kubeletplugin.publish.slices import build_slices
from kubeletplugin.publish.validation import faults
from tests.fakes.deviceplugin.host_tree import FakeHostTree
from tests.fuzz.source import Source
from tests.fuzz.targets.target import Target
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

T = TypeVar("T")

_NAMES: Final = Names("lode.dev")
_GOOD: Final = "example.com/good"
_FILES: Final = FakeHostTree(["/dev/kfd"], {"/opt/amd/lib.so": b""}, {"/dev/link": "/dev/kfd"})


def _decoded(decode: Callable[[bytes], T], data: bytes) -> T | None:
    """The message; None if gRPC refuses it before it reaches the program."""
    try:
        return decode(data)
    except DecodeError:
        return None


def _lists(data: bytes) -> None:
    """Whatever a list says, the slices of the node are valid, and have the devices of another device plugin."""
    source, files, clock = Source(data), MemoryFiles(), VirtualClock()

    def start() -> Registry:
        record = BootFile(files, "/state/known.json", "boot-1", Known, logger("fuzz"))
        labelled = LabelledNode({}, lambda _: Place())
        return Registry(DevicePluginSettings(), record, lambda: labelled, clock, logger("fuzz"))

    registry = start()
    registry.listed(registry.begin(_GOOD, "good.sock"), [Reported("a", healthy=True)])
    resource = source.choice(("example.com/odd", _GOOD + "-2", source.text()))
    if refusal_of(resource) or resource == _GOOD or not (answer := _decoded(_LIST.FromString, source.rest())):
        return
    devices, registration = [*reported_in(answer)], registry.begin(resource, "odd.sock")
    for listed in (devices, devices[::2], devices[1::2]):
        registry.listed(registration, listed)
    registry.save()
    for each in (registry, start()):  # the next program of the boot reads what this one has recorded
        found = build_inventory(each.cards(), Fabric(), EVERY_OFFER, 100, _NAMES, NO_RESTRICTIONS)
        assert faults(build_slices(found.devices, (), "node", _NAMES)) == ()
        assert [card for card in each.cards() if card.bridged and card.bridged.resource == _GOOD]
    assert registry.health()[_GOOD, "a"].healthy


def _answers(data: bytes) -> None:
    """Whatever a device plugin answers, a container gets edits that can be recorded, or there is a refusal."""
    if not (raw := _decoded(messages.ContainerAllocateResponse.FromString, data)):
        return
    try:
        edits = edits_from(answer_from(raw), _GOOD, ResourceSettings(), _FILES)
    except HardwareRefusal:
        return
    assert from_text(to_text(edits)) == edits


def _specs(data: bytes) -> None:
    """Whatever the CDI spec of another device plugin has in it, the devices of this one have their edits."""
    source = Source(data)
    name = source.choice(("/etc/cdi/odd.yaml", "/var/run/cdi/odd.json"))
    odd = source.rest()
    if b"own" in odd:  # it may be a later one of the same device, which counts, or one beside it, and none does
        return
    files = FakeHostTree((), {"/etc/cdi/own.yaml": _OWN_SPEC, name: odd})
    *_, found = edits_of([f"{_GOOD}=own"], _GOOD, files)
    assert found.env == (("OWN", "1"),)


_OWN_SPEC: Final = (
    b"cdiVersion: 0.5.0\nkind: example.com/good\ndevices: [{name: own, containerEdits: {env: [OWN=1]}}]\n"
)
_ODD_SPECS: Final = (
    b"kind: [example.com/good]",
    b"kind: example.com/good\ndevices: [{name: [x]}]",
    b'{"kind": "example.com/good", "devices": [{"name": "x", "containerEdits": {"env": [1]}}]}',
    b"a: &a {x: 1}\nb: {<<: [*a, *a]}\nkind: example.com/good",
)
_LIST: Final = messages.ListAndWatchResponse
_SEEDS: Final = [
    _LIST(devices=[messages.Device(ID=name, health="Healthy") for name in names])
    for names in (("0000:18:00.0", "0000:19:00.0"), ("card-a::0", "card-a::1"), ("", "../x", "ß" * 300))
]
_ANSWER: Final = messages.ContainerAllocateResponse(
    envs={"A": "b"},
    mounts=[messages.Mount(container_path="/opt/amd", host_path="/opt/amd", read_only=True)],
    devices=[messages.DeviceSpec(container_path="/dev/kfd", host_path="/dev/kfd", permissions="rw")],
    annotations={"cdi.k8s.io/x": "example.com/card=0"},
)
TARGETS: Final = (
    Target("lists", _lists, tuple(b"\0" + seed.SerializeToString() for seed in _SEEDS)),
    Target("answers", _answers, (_ANSWER.SerializeToString(),)),
    Target("specs", _specs, tuple(b"\0" + spec for spec in _ODD_SPECS)),
)
