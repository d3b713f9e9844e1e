"""What the commands say of a node whose devices vendors' device plugins serve: the profile ``mi300x8``."""

import json
import re
from typing import Any

import pytest

from cli.__main__ import main as lode
from kubeletplugin.hardware.deviceplugin.mapping import device_name
from kubeletplugin.hardware.simulated import profile_from
from tests.unit.cli.cluster import pod, slices
from tests.unit.cli.test_explain_fleet import replace_cards, share
from tests.unit.cli.user import User, add, hold
from tests.unit.docs.pages import page

FIRST, ADAPTER = device_name("amd.com/gpu", "0000:0c:00.0"), device_name("rdma/hca", "all")


@pytest.fixture
def bridged(cluster: User) -> User:
    """The cluster with that node: a pod has a card, and two pods have slots of the adapter."""
    replace_cards(cluster, *slices("g", "mi300x8"))
    hold(cluster, "one", f"g/{FIRST}", add(cluster, pod("train", "one")))
    share(cluster, "a", f"{ADAPTER}-share", slots="1", memory="0", cores="0")
    share(cluster, "b", f"{ADAPTER}-share", slots="1", memory="0", cores="0")
    return cluster


def yaml_blocks(path: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", page(path), re.MULTILINE | re.DOTALL)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    assert lode(["top", *argv, "-o", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["items"]
    return found


def test_a_node_has_its_types_and_memory(bridged: User, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = printed(capsys, "nodes")
    shown = {name: item[name] for name in ("types", "cards", "whole", "shared", "free", "bad", "memory", "memoryHeld")}
    assert shown == {
        "types": ["ConnectX-7", "MI300X"],
        "cards": 9,
        "whole": 1,
        "shared": 1,
        "free": 7,
        "bad": 0,
        "memory": "1536Gi",
        "memoryHeld": "192Gi",
    }


def test_a_card_has_its_type_and_id_and_nothing_is_said_of_memory_that_is_not_known(
    bridged: User, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = {item["card"]: item for item in printed(capsys, "cards")}
    card, adapter = cards[f"g/{FIRST}"], cards[f"g/{ADAPTER}"]
    assert (card["uuid"], card["type"], card["memory"], card["heldBy"]) == (
        "amd.com/gpu/0000:0c:00.0",
        "MI300X",
        "192Gi",
        ["default/train"],
    )
    assert (adapter["type"], adapter["state"], adapter["heldBy"]) == (
        "ConnectX-7",
        "shared",
        ["default/a", "default/b"],
    )
    assert [one["cards"] for one in adapter["holders"]] == [0.125, 0.125]
    assert not {"memory", "memoryHeld", "largestFree"} & adapter.keys()
    lode(["top", "cards"])
    row = next(line.split() for line in capsys.readouterr().out.splitlines() if ADAPTER in line)
    assert row[5] == "-"


def test_a_namespace_has_parts_of_cards_by_slots(bridged: User, capsys: pytest.CaptureFixture[str]) -> None:
    (item,) = printed(capsys, "namespaces")
    assert item["cards"] == 1.25


def test_what_is_left_is_told_in_slots_where_nothing_is_known_of_memory(bridged: User, explained: Any) -> None:
    assert "6 of its 8 slots are free." in explained(f"card/g/{ADAPTER}", output="table").out
    shown = explained(f"card/g/{device_name('amd.com/gpu', '0000:22:00.0')}", output="table").out
    assert "(MI300X, amd.com/gpu/0000:22:00.0) is held by nobody. A claim can get up to 192Gi of its 192Gi" in shown


def test_the_inventory_has_the_ids_and_no_offers_that_a_device_plugin_cannot_make(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert lode(["inventory", "--profile", "mi300x8"]) == 0
    shown = capsys.readouterr().out
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert "AMD Instinct MI300X OAM" in rows[FIRST]
    assert "196608Mi" in rows[FIRST]
    assert "0000:0c:00.0" in rows[FIRST]
    assert rows[FIRST].endswith("whole")
    assert "rdma/hca" in rows[ADAPTER]
    assert rows[ADAPTER].endswith("8 slots")
    assert "not offered" not in shown


def test_the_profile_of_the_page_is_played_as_it_says() -> None:
    (block,) = [text for text in yaml_blocks("docs/deviceplugins.md") if "devicePlugins:" in text]
    first, _ = sorted(profile_from(block, "page").cards, key=lambda card: card.uuid)
    assert (first.type, first.pci_bus_id, first.numa_node) == ("VCK5000", "0000:3b:00.0", 0)
    assert first.bridged
    assert first.bridged.attributes["region"] == "0"
