"""A card that another DRA driver publishes, too, is found by what both say about it."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest

from cli.doctor.findings import Finding
from cli.doctor.rivals import CardsOfNode, TwiceOffered, check_twice
from driver.deviceplugins import ResourceSettings
from driver.kube.api import Object
from driver.names import Names
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode, card_of, device_name
from kubeletplugin.hardware.deviceplugin.reported import Reported, card_reports
from kubeletplugin.hardware.place import Place
from tests.unit.cli.cluster import slices, slices_of

NAMES, AMD = Names(), "amd.com/gpu"
FOREIGN = {"key": "lode.dev/other-driver", "effect": "NoSchedule", "value": "dra-driver"}


def bridged() -> list[Object]:
    """The slices of a node with two cards of AMD's device plugin."""
    node = LabelledNode({}, lambda _: Place())
    reports = card_reports(map(Reported, ("0000:18:00.0", "0000:af:00.0")), "auto")
    return slices_of([card_of(AMD, each, ResourceSettings(), node) for each in reports], "n1")


def other(driver: str, *devices: Mapping[str, object]) -> Object:
    """A slice of another driver: its devices by their attributes."""

    def written(value: object) -> Object:
        return {"int" if isinstance(value, int) else "string": value}

    listed = [
        {"name": f"d{at}", "attributes": {name: written(value) for name, value in device.items()}}
        for at, device in enumerate(devices)
    ]
    return {"metadata": {"name": driver}, "spec": {"driver": driver, "nodeName": "n1", "devices": listed}}


def twice(own: list[Object], *others: Object) -> list[TwiceOffered]:
    cards = CardsOfNode()
    for part in own:
        cards.add_own(part, NAMES)
    for part in others:
        cards.add_other(part)
    return [*cards.twice()]


def attribute(own: list[Object], name: str) -> str:
    """An attribute of the first device."""
    device = next(device for part in own for device in part["spec"].get("devices") or ())
    found = device["attributes"].get(name) or device["attributes"][f"lode.dev/{name}"]
    return str(next(iter(found.values())))


GPUS = slices("n1", "a100x4")


@pytest.mark.parametrize(
    ("own", "other", "cards"),
    [
        (GPUS, other("gpu.nvidia.com", {"uuid": attribute(GPUS, "uuid"), "type": "gpu"}), ("gpu-0",)),
        (GPUS, other("gpu.nvidia.com", {"gpu.nvidia.com/parentUUID": attribute(GPUS, "uuid")}), ("gpu-0",)),
        (GPUS, other("gpu.nvidia.com", {"resource.kubernetes.io/pciBusID": "0000:47:00.0"}), ("gpu-2",)),
        (GPUS, other("gpu.nvidia.com", {"uuid": "GPU-of-nobody"}, {"architecture": "Ampere"}), ()),
        (slices("n1", "ascend310px4"), other("npu.huawei.com", {"physicId": 3}, {"physicId": 9}), ("npu-3",)),
        (GPUS, other("npu.huawei.com", {"physicId": 3}), ()),
        (slices("n1", "ascend310px4"), other("net.example.com", {"physicId": 3}), ()),
        (bridged(), other("gpu.amd.com", {"pciAddr": "0000:18:00.0"}), (device_name(AMD, "0000:18:00.0"),)),
        (bridged(), other("dra.net", {"resource.kubernetes.io/pciBusID": "0000:19:00.0"}), ()),
    ],
)
def test_both_say_the_same_of_a_card(own: list[Object], other: Object, cards: tuple[str, ...]) -> None:
    assert [one.cards for one in twice(own, other)] == ([cards] if cards else [])


def test_cards_are_closed_if_every_one_of_them_has_the_taint() -> None:
    marked = deepcopy(GPUS)
    devices = {device["name"]: device for part in marked for device in part["spec"].get("devices") or ()}
    for name, device in devices.items():
        device["taints"] = [FOREIGN] if name.startswith("gpu-0") else []
    first, second = (other("gpu.nvidia.com", {"uuid": uuid_of(devices[name])}) for name in ("gpu-0", "gpu-1"))
    assert twice(marked, first) == [TwiceOffered("gpu.nvidia.com", ("gpu-0",), is_closed=True)]
    assert twice(marked, first, second) == [TwiceOffered("gpu.nvidia.com", ("gpu-0", "gpu-1"), is_closed=False)]


def uuid_of(device: Any) -> str:
    (found,) = (value["string"] for name, value in device["attributes"].items() if name.endswith("uuid"))
    return str(found)


def told(*nodes: tuple[str, bool, int]) -> list[tuple[str, str, str]]:
    """Status, subject and message for nodes by name, whether the card is closed, and how many claims hold cards."""
    found: list[Finding] = [
        *check_twice((name, [TwiceOffered("gpu.nvidia.com", ("gpu-0",), closed)], held) for name, closed, held in nodes)
    ]
    assert all("remove gpu.nvidia.com there" in one.remedy for one in found)
    return [(one.status, one.subject, one.message) for one in found]


def test_a_card_that_new_claims_do_not_get_is_a_warning_until_a_claim_holds_one() -> None:
    same = "the DRA driver gpu.nvidia.com publishes the same cards as Lode"
    assert told(("n1", True, 0), ("n2", True, 0)) == [
        ("warning", "n1, n2", f"{same}: n1/gpu-0, n2/gpu-0; claims of Lode do not get them meanwhile")
    ]
    assert told(("n1", True, 2), ("n2", True, 0), ("n3", False, 0)) == [
        ("failed", "n1, n3", f"{same}: n1/gpu-0, n3/gpu-0; one card can be in two hands"),
        ("warning", "n2", f"{same}: n2/gpu-0; claims of Lode do not get them meanwhile"),
    ]


def test_a_thousand_nodes_are_a_line() -> None:
    ((_, subject, message),) = told(*((f"n{number}", False, 0) for number in range(1000)))
    assert (subject.endswith("and 995 more"), "and 995 more; one card" in message) == (True, True)
