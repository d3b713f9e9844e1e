"""lode inventory says what a node has and offers, and why not more; what it records can be played."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main as lode
from cli.inventory import CardFacts, InventoryNode, report
from driver.kinds import EVERY_OFFER, Offer
from driver.settings import KubeletPluginSettings, Settings
from kubeletplugin.hardware import CardState, FoundObject, Health
from kubeletplugin.hardware.actions import MigInstance, MigMode
from kubeletplugin.hardware.simulated import SimulatedHardware, load_profile, profile_from, shipped_profiles
from kubeletplugin.offers import Recorded
from tests.simulation.files import MemoryFiles

XID = Health("fatal", "fell off the bus", "Xid 79", "reset")


def facts(
    profile: str,
    labels: Mapping[str, str] | None = None,
    offer: tuple[Offer, ...] = EVERY_OFFER,
    health: Mapping[str, Health] | None = None,
    excluded: Mapping[Offer, str] | None = None,
) -> InventoryNode:
    cards = SimulatedHardware(load_profile(profile, MemoryFiles()), "n1").cards()
    known = tuple(
        CardFacts(card, (health or {}).get(card.name, Health()), CardState((), excluded or {})) for card in cards
    )
    return InventoryNode("n1", Settings(kubeletplugin=KubeletPluginSettings(offer=offer)), labels or {}, known)


def test_every_card_is_a_line_with_what_it_is_offered_as() -> None:
    assert report(facts("t4x2")).text().splitlines() == [
        "node n1:",
        "CARD    TYPE   MODEL      MEMORY    NUMA   PCI            HEALTH    OFFERED AS",
        "gpu-0   T4     Tesla T4   15360Mi   -      0000:3b:00.0   healthy   whole, share",
        "gpu-1   T4     Tesla T4   15360Mi   -      0000:af:00.0   healthy   whole, share",
        "gpu-0, gpu-1: not offered as partitions: no partitions are known for a T4",
    ]
    assert "whole, share, 7x 1g.5gb, 4x 1g.10gb" in report(facts("a100x4")).text()


@pytest.mark.parametrize(
    ("found", "reasons"),
    [
        (
            facts("t4x2", offer=("whole",)),
            {
                "not offered as share: the setting kubeletplugin.offer is [whole]",
                "not offered as partitions: no partitions are known for a T4",
            },
        ),
        (
            facts("a100x4", labels={"lode.dev/offer": "share-partitions"}),
            {"not offered as whole: the node has the label lode.dev/offer=share-partitions"},
        ),
        (
            facts("t4x2", offer=("partitions",)),
            {
                "not offered as whole: the setting kubeletplugin.offer is [partitions]",
                "not offered as share: the setting kubeletplugin.offer is [partitions]",
                "not offered as partitions: no partitions are known for a T4",
            },
        ),
        (facts("a100x4"), set()),
    ],
)
def test_what_is_not_offered_has_a_reason(found: InventoryNode, reasons: set[str]) -> None:
    told = report(found)
    lines = told.text().splitlines()[2 + len(found.cards) :]
    names = ", ".join(known.card.name for known in found.cards)
    assert set(lines) == {f"{names}: {reason}" for reason in reasons}
    for card in told.to_json()["cards"]:
        assert {f"not offered as {item['as']}: {item['reason']}" for item in card["notOffered"]} == reasons


def test_every_card_that_has_no_device_says_why_for_every_kind() -> None:
    for profile in shipped_profiles():
        for card in report(facts(profile, offer=())).cards:
            if card.facts.card.bridged:
                continue  # its device plugin has it in one way, whatever else is offered
            assert not card.offered
            assert tuple(card.withheld) == EVERY_OFFER


def test_a_card_that_does_not_work_is_told_with_its_fault_and_what_it_takes() -> None:
    lines = report(facts("t4x2", health={"gpu-1": XID})).text().splitlines()[1:]
    assert "fatal" in lines[2]
    assert (
        "gpu-1: not given to new claims: it has the taint lode.dev/unhealthy "
        "(fatal, Xid 79, fell off the bus, it takes a reset)"
    ) in lines


def with_partition(recorded: Recorded) -> InventoryNode:
    """An A100 with one MIG instance in its upper half."""
    found = facts("a100x4")
    first = found.cards[0]
    instance = MigInstance(first.card.uuid, "3g.20gb", 4)
    state = CardState((FoundObject(MigMode(first.card.uuid)), FoundObject(instance)))
    return replace(found, cards=(replace(first, state=state),), recorded=recorded)


def test_what_partitions_of_somebody_else_exclude_is_not_offered_and_says_so() -> None:
    told = report(with_partition(Recorded()))
    assert told.cards[0].summary == "4x 1g.5gb, 2x 1g.10gb, 2x 2g.10gb, 1x 3g.20gb, 1x 4g.20gb"
    uuid = told.facts.cards[0].card.uuid
    reason = f"partitions that this program did not make are on it: mig:{uuid}:3g.20gb:4; remove them"
    assert told.text().splitlines()[3:] == [
        f"gpu-0: not offered as whole: {reason}",
        f"gpu-0: not offered as share: {reason}",
        f"gpu-0: not everything can be allocated: {reason}",
    ]
    assert told.to_json()["cards"][0]["taken"] == reason


def test_partitions_of_claims_exclude_nothing() -> None:
    uuid = facts("a100x4").cards[0].card.uuid
    keys = frozenset({MigMode(uuid).key, MigInstance(uuid, "3g.20gb", 4).key})
    told = report(with_partition(Recorded(keys)))
    assert told.cards[0].summary == report(facts("a100x4")).cards[0].summary
    assert not told.cards[0].withheld


def test_a_node_label_that_is_not_valid_is_a_note_and_ignored() -> None:
    told = report(facts("t4x2", labels={"lode.dev/offer": "hole"}, offer=("share",)))
    assert told.offer == ("share",)
    (note,) = told.notes
    assert "lode.dev/offer=hole is not valid and ignored; use one or more of whole, share, partitions" in note


def test_a_node_without_cards_says_so() -> None:
    found = facts("t4x2")
    empty = InventoryNode("n1", found.settings, {}, ())
    assert report(empty).text() == "node n1 has no cards"
    assert report(empty).to_json()["cards"] == []


def test_the_json_has_every_field_of_a_card_and_its_devices() -> None:
    first = report(facts("a100x4")).to_json()["cards"][0]
    assert first["memoryMiB"] == 40960
    assert first["pciBusID"] == "0000:07:00.0"
    assert first["partitions"] == "mig-a100-40gb"
    assert first["health"] == {"state": "healthy", "message": "", "code": "", "recovery": "none", "away": False}
    assert first["devices"]["gpu"] == ["gpu-0"]
    assert "gpu-0-mig-1g-5gb-6" in first["devices"]["mig"]


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert lode(["inventory", *argv, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", shipped_profiles())
def test_what_the_command_records_has_the_same_cards_and_devices(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recorded.yaml"
    wanted = printed(capsys, "--profile", name, "--node-name", "n1")
    assert lode(["inventory", "--profile", name, "--node-name", "n1", "--record", str(path)]) == 0
    assert f"{len(wanted['cards'])} cards recorded" in capsys.readouterr().err
    assert printed(capsys, "--profile", str(path), "--node-name", "n1") == wanted


def test_a_profile_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["inventory", "--profile", "t4x2", "--record", "-"]) == 0
    assert len(profile_from(capsys.readouterr().out, "printed").cards) == 2


def test_without_the_nodes_name_a_note_says_that_its_labels_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert lode(["inventory", "--node-name", ""]) == 0
    told = capsys.readouterr()
    assert told.out == "this node has no cards\n"
    assert "labels count as not set; give --node-name" in told.err


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["--profile", "h200x8"], "unknown profile; use one of a100x4"),
        (["--settings", "/does/not/exist"], "/does/not/exist"),
        (["--profile", "t4x2", "--record", "/does/not/exist/p.yaml"], "/does/not/exist/p.yaml"),
    ],
)
def test_what_cannot_be_read_or_written_is_told(
    argv: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lode(["inventory", *argv]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert told.err.startswith("lode inventory: ")
    assert reason in told.err
