"""Of a card, it is known whether a device plugin or another DRA driver hands it out; in doubt, it is."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from driver.kube.api import Object
from kubeletplugin.hardware import Card, CardState, FoundObject
from kubeletplugin.hardware.actions import MigInstance
from kubeletplugin.hardware.card import Bridged
from kubeletplugin.hardware.simulated import load_profile
from kubeletplugin.kubelet_devices import KubeletDevices, PluginDevice
from kubeletplugin.publish.other_drivers import (
    HandedOutBy,
    KnownCard,
    OtherDevice,
    OtherProgram,
    devices_in,
    first_of,
    handed_out,
    known_card,
    signs_in_api,
    signs_of_kubelet,
)
from tests.simulation.files import MemoryFiles

GPU, NPU = "nvidia.com/gpu", "huawei.com/Ascend310P"


def cards() -> tuple[Card, ...]:
    """Three GPUs and two NPUs with uuids."""
    gpus, npus = load_profile("a100x4", MemoryFiles()).cards[:3], load_profile("ascend310px4", MemoryFiles()).cards[:2]
    return tuple(replace(card, uuid=f"{card.unit.upper()}-uuid{card.index}") for card in (*gpus, *npus))


KNOWN = [known_card(card, CardState()) for card in cards()]
GPUS, NPUS = {"gpu-0", "gpu-1", "gpu-2"}, {"npu-0", "npu-1"}


def node(**capacity: int | str) -> Object:
    names = {"gpu": GPU, "npu": NPU, "cpu": "cpu"}
    return {"status": {"capacity": {names[name]: str(amount) for name, amount in capacity.items()}}}


def plugin(*ids: str, resource: str = GPU) -> frozenset[PluginDevice]:
    return frozenset(PluginDevice(resource, name) for name in ids)


def published(*texts: str) -> list[OtherDevice]:
    return [OtherDevice("gpu.nvidia.com", frozenset([text])) for text in texts]


def closed(
    kubelet: KubeletDevices | None,
    seen: Object | None = None,
    devices: Collection[OtherDevice] = (),
    cards: Collection[KnownCard] = KNOWN,
) -> Mapping[str, tuple[OtherProgram, ...]]:
    """The cards that other programs have by all that is known now."""
    bridged = {known.group for known in cards if known.card.bridged}
    named = signs_of_kubelet(kubelet, devices, bridged) if kubelet else ()
    return handed_out(cards, [*named, *signs_in_api(seen or {}, devices, kubelet, bridged)])


@pytest.mark.parametrize(
    ("kubelet", "expected"),
    [
        pytest.param(KubeletDevices(plugin("GPU-uuid1")), {"gpu-1"}, id="a card"),
        pytest.param(KubeletDevices(plugin("GPU-uuid1::3", "GPU-uuid1::4")), {"gpu-1"}, id="replicas of a card"),
        pytest.param(KubeletDevices(plugin("GPU-uuid0-7")), {"gpu-0"}, id="a virtual GPU"),
        pytest.param(
            KubeletDevices(plugin("GPU-uuid2-4", resource="volcano.sh/vgpu-number")), {"gpu-2"}, id="a vGPU of Volcano"
        ),
        pytest.param(KubeletDevices(plugin("MIG-GPU-uuid2/7/0")), {"gpu-2"}, id="an instance named after its card"),
        pytest.param(KubeletDevices(plugin("MIG-instance")), GPUS, id="an instance of any card"),
        pytest.param(KubeletDevices(used=plugin("GPU-uuid0")), {"gpu-0"}, id="pods of a plugin that has gone"),
        pytest.param(KubeletDevices(plugin("GPU-uuid1"), plugin("GPU-uuid0")), {"gpu-0", "gpu-1"}, id="both"),
        pytest.param(KubeletDevices(plugin("Ascend310P-1", resource=NPU)), {"npu-1"}, id="a chip"),
        pytest.param(KubeletDevices(plugin("Ascend310P-2c-100-0", resource=NPU)), {"npu-0"}, id="a vNPU"),
        pytest.param(KubeletDevices(plugin("soft-7-x", resource=NPU)), NPUS, id="something of any chip"),
        pytest.param(KubeletDevices(drivers=frozenset({"gpu.nvidia.com"})), GPUS, id="pods of a driver that has gone"),
        pytest.param(KubeletDevices(drivers=frozenset({"lode.dev", "net.example"})), set(), id="no driver of cards"),
        pytest.param(KubeletDevices(plugin("eth0", resource="net.example/port")), set(), id="no card"),
        pytest.param(KubeletDevices(), set(), id="nothing"),
    ],
)
def test_the_kubelet_says_which_cards_are_handed_out(kubelet: KubeletDevices, expected: set[str]) -> None:
    assert closed(kubelet).keys() == expected


def test_an_instance_names_the_card_that_it_is_on() -> None:
    first, second, *_ = cards()
    found = FoundObject(MigInstance(second.uuid, "1g.5gb", 0), {"uuid": "MIG-instance"})
    known = [known_card(first, CardState()), known_card(second, CardState((found,)))]
    assert closed(KubeletDevices(plugin("MIG-instance")), cards=known).keys() == {"gpu-1"}


@pytest.mark.parametrize(
    ("capacity", "kubelet", "expected"),
    [
        ({"gpu": 3}, None, GPUS),
        ({"gpu": "1k"}, None, GPUS),
        ({"gpu": "many"}, None, set()),
        ({"npu": 2, "cpu": 64}, None, NPUS),
        ({"cpu": 64}, None, set()),
        ({"gpu": 0}, None, set()),
        ({"gpu": 1}, KubeletDevices(plugin("GPU-uuid1")), {"gpu-1"}),
        ({"gpu": 2}, KubeletDevices(plugin("GPU-uuid1")), GPUS),
        ({"gpu": 3}, KubeletDevices(), GPUS),
    ],
)
def test_devices_that_the_kubelet_does_not_name_may_be_any_card(
    capacity: Mapping[str, int | str], kubelet: KubeletDevices | None, expected: set[str]
) -> None:
    assert closed(kubelet, node(**capacity)).keys() == expected


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (published("GPU-uuid2"), {"gpu-2"}),
        (published("GPU-uuid2", "GPU-uuid0"), {"gpu-0", "gpu-2"}),
        (published("GPU-uuid2", "a100"), GPUS),
        (published("0000:0f:00.0"), {"gpu-1"}),
        ([OtherDevice("gpu.nvidia.com", frozenset())], GPUS),
        ([OtherDevice("npu.huawei.com", frozenset())], NPUS),
        ([], set()),
    ],
)
def test_devices_of_dra_drivers_name_their_cards(devices: list[OtherDevice], expected: set[str]) -> None:
    kubelet = KubeletDevices(drivers=frozenset(device.driver for device in devices))
    assert closed(kubelet, devices=devices).keys() == expected
    assert closed(None, devices=devices).keys() == expected


def test_it_is_said_who_hands_a_card_out() -> None:
    kubelet = KubeletDevices(plugin("GPU-uuid1"), plugin("GPU-uuid0", "GPU-uuid1"))
    found = closed(kubelet, node(gpu=1), published("GPU-uuid0"))
    assert {card: tuple(program.text for program in programs) for card, programs in found.items()} == {
        "gpu-0": ("the DRA driver gpu.nvidia.com", "pods that have nvidia.com/gpu"),
        "gpu-1": ("the device plugin of nvidia.com/gpu", "pods that have nvidia.com/gpu"),
    }
    assert {card: first_of(programs) for card, programs in found.items()} == {
        "gpu-0": HandedOutBy.DRA_DRIVER,
        "gpu-1": HandedOutBy.DEVICE_PLUGIN,
    }


def test_the_devices_of_a_slice_are_known_by_the_values_of_their_attributes() -> None:
    attributes = {"uuid": {"string": "GPU-uuid1"}, "index": {"int": 3}}
    devices = [{"name": "gpu-0", "attributes": attributes}, {"name": "gpu-1"}]
    spec = {"driver": "gpu.nvidia.com", "devices": devices}
    texts = {device.texts for device in devices_in({"spec": spec})}
    assert texts == {frozenset({"GPU-uuid1"}), frozenset()}
    assert devices_in({"spec": {**spec, "driver": "net.example"}}) == frozenset()


AMD = "amd.com/gpu"


def bridged(device_id: str, *ids: str) -> Card:
    what = Bridged(AMD, device_id, f"gpu-{device_id}", "amd", ids or (device_id,))
    return replace(cards()[0], vendor="bridged", uuid=f"{AMD}/{device_id}", bridged=what)


@pytest.mark.parametrize(
    ("kubelet", "count", "expected"),
    [
        pytest.param(KubeletDevices(plugin("a", resource=AMD)), 0, {"gpu-a"}, id="its device plugin is the kubelet's"),
        pytest.param(KubeletDevices(used=plugin("b::1", resource=AMD)), 0, {"gpu-b"}, id="pods have it from before"),
        pytest.param(KubeletDevices(plugin("a", resource="intel.com/gpu")), 0, set(), id="another resource"),
        pytest.param(KubeletDevices(plugin("a", resource=AMD)), 1, {"gpu-a"}, id="all are named"),
        pytest.param(KubeletDevices(plugin("a", resource=AMD)), 2, {"gpu-a", "gpu-b"}, id="one is not named"),
        pytest.param(None, 1, {"gpu-a", "gpu-b"}, id="the kubelet does not answer"),
        pytest.param(KubeletDevices(), 0, set(), id="after the move the kubelet has none"),
    ],
)
def test_a_bridged_card_is_not_offered_twice(kubelet: KubeletDevices | None, count: int, expected: set[str]) -> None:
    own = [bridged("a"), bridged("b", "b::0", "b::1")]
    status = {"status": {"capacity": {AMD: str(count)}, "allocatable": {AMD: "0"}}}
    known = [known_card(card, CardState()) for card in own]
    assert set(closed(kubelet, status, cards=known)) == expected
