"""What device plugins reported is remembered: faults over their restarts, and everything over ours."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.deviceplugins import DevicePluginSettings
from driver.observe import logger
from kubeletplugin.hardware.boot_file import BootFile
from kubeletplugin.hardware.deviceplugin.mapping import LabelledNode
from kubeletplugin.hardware.deviceplugin.registry import (
    GRACE_SECONDS,
    KEPT_SECONDS,
    MOST_RESOURCES,
    SAVE_SECONDS,
    Registration,
    Registry,
)
from kubeletplugin.hardware.deviceplugin.remembered import MOST_ID, MOST_IDS, Known, KnownResource, after_list
from kubeletplugin.hardware.deviceplugin.reported import Reported
from kubeletplugin.hardware.place import Place
from tests.simulation.clock import VirtualClock
from tests.simulation.files import MemoryFiles

GPU = "amd.com/gpu"
KNOWN = "/state/known.json"
REMEMBER = 600


class Node:
    """A node whose programs follow each other."""

    def __init__(self, **settings: Any):
        self.files, self.clock, self.boot = MemoryFiles(), VirtualClock(), "boot-1"
        self.settings = DevicePluginSettings.model_validate({"rememberSeconds": REMEMBER, **settings})
        self.labels: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        def facts() -> LabelledNode:
            return LabelledNode(dict(self.labels), lambda address: Place())

        self.registry = Registry(self.settings, self._record(), facts, self.clock, logger("test"))

    def lists(self, *devices: str, to: Registration | None = None) -> Registration:
        """A list of IDs; ``!`` in front of one that is unhealthy."""
        to = to or self.registry.begin(GPU, "amd.sock")
        self.registry.listed(to, [Reported(it.lstrip("!"), not it.startswith("!")) for it in devices])
        return to

    def _record(self) -> BootFile[Known]:
        return BootFile(self.files, KNOWN, self.boot, Known, logger("test"))

    @property
    def known(self) -> Known:
        """What the next program will know."""
        return self._record().load() or {}

    @property
    def cards(self) -> list[str]:
        return [card.bridged.device_id for card in self.registry.cards() if card.bridged]

    @property
    def health(self) -> Mapping[str, str]:
        return {name: health.message for (_, name), health in self.registry.health().items()}


@pytest.fixture
def node() -> Node:
    return Node()


def test_each_list_is_complete_and_what_is_missing_is_gone(node: Node) -> None:
    registration = node.lists("a", "b")
    assert (node.cards, node.health) == (["a", "b"], {"a": "", "b": ""})
    node.lists("b", to=registration)
    assert "does not report it any more" in node.health["a"]
    assert [node.registry.present(GPU, name) for name in ("a", "b")] == [False, True]
    node.clock.sleep(KEPT_SECONDS)
    assert node.cards == ["b"]


def test_what_a_claim_has_stays_although_it_is_gone(node: Node) -> None:
    node.lists(to=node.lists("a"))
    node.clock.sleep(KEPT_SECONDS)
    node.registry.hold({(GPU, "a")})
    assert node.cards == ["a"]


def test_the_devices_of_a_device_plugin_that_was_removed_go_unless_a_claim_has_them(node: Node) -> None:
    node.registry.lost(node.lists("a", "b"))
    node.clock.sleep(KEPT_SECONDS - 1)
    assert node.cards == ["a", "b"]
    node.clock.sleep(1)
    node.registry.hold({(GPU, "b")})
    assert node.cards == ["b"]
    node.lists("a", "b")
    assert (node.cards, node.health) == (["a", "b"], {"a": "", "b": ""})


def test_a_lost_connection_makes_all_its_devices_unhealthy_until_the_next_list(node: Node) -> None:
    registration = node.lists("a", "b")
    assert node.registry.lost(registration)
    assert all("is not connected" in message for message in node.health.values())
    assert all(health.away for health in node.registry.health().values()), "the devices have not failed"
    assert node.cards == ["a", "b"]
    again = node.registry.begin(GPU, "amd.sock")
    assert "is not connected" in node.health["a"], "a registration without a list says nothing"
    node.lists("a", "b", to=again)
    assert node.health == {"a": "", "b": ""}


def test_the_newest_registration_counts(node: Node) -> None:
    first = node.lists("a")
    second = node.registry.begin(GPU, "other.sock")
    node.lists("a", "b", to=first)
    assert node.registry.current(GPU) == first, "until the new one has sent its list"
    assert node.registry.listed(second, [Reported("c")]) == first
    node.lists("a", to=first)
    assert not node.registry.lost(first)
    assert node.registry.current(GPU) == second
    assert node.registry.present(GPU, "c")


def test_a_device_that_recovers_is_healthy_at_once(node: Node) -> None:
    registration = node.lists("!a")
    assert "reports it as unhealthy: a" in node.health["a"]
    node.lists("a", to=registration)
    assert node.health["a"] == ""


def test_a_device_plugin_that_starts_anew_forgets_faults_and_we_remember_them(node: Node) -> None:
    node.lists("!a", "b")
    node.clock.sleep(10 * REMEMBER)
    again = node.lists("a", "b")
    assert "before it started anew: a" in node.health["a"]
    assert node.health["b"] == ""
    node.lists("a", "b", to=again)
    node.clock.sleep(REMEMBER - 1)
    assert "before it started anew" in node.health["a"]
    node.clock.sleep(1)
    assert node.health["a"] == ""


def test_a_fault_that_a_device_plugin_reports_itself_ends_when_it_says_so(node: Node) -> None:
    node.lists("!a")
    again = node.lists("!a")
    node.lists("a", to=again)
    assert node.health["a"] == ""


def test_nothing_is_remembered_if_the_setting_says_so() -> None:
    node = Node(rememberSeconds=0)
    node.lists("!a")
    node.lists("a")
    assert node.health["a"] == ""


def test_the_next_program_of_a_boot_knows_everything_and_waits_for_registrations(node: Node) -> None:
    node.lists("a", "!b")
    node.start()
    assert node.cards == ["a", "b"]
    assert node.health["a"] == "", "device plugins have some time to register"
    assert "unhealthy" in node.health["b"]
    assert node.registry.endpoints == {"amd.sock"}
    registration = node.registry.begin(GPU, "amd.sock")
    assert node.health["a"] == "", "and to send their list"
    node.lists("a", "!b", to=registration)
    node.start()
    node.clock.sleep(GRACE_SECONDS)
    assert "is not connected" in node.health["a"]
    node.lists("a", "b")
    assert node.health["a"] == ""
    assert "before it started anew" in node.health["b"]


def test_the_next_program_of_a_boot_knows_which_device_plugins_were_lost(node: Node) -> None:
    """A claim that is given their devices would wait for ever."""
    node.registry.lost(node.lists("a"))
    node.start()
    assert "is not connected" in node.health["a"]
    node.lists("a")
    node.start()
    assert node.health["a"] == ""


def test_a_reboot_forgets_everything(node: Node) -> None:
    node.lists("a")
    node.boot = "boot-2"
    node.start()
    assert node.cards == []


def test_while_another_program_serves_everything_stays_as_it_is(node: Node) -> None:
    registration = node.lists("a")
    node.registry.freeze(frozen=True)
    assert not node.registry.lost(registration)
    assert (node.cards, node.health) == (["a"], {"a": ""})


def test_after_another_program_has_served_device_plugins_have_time_to_register_again(node: Node) -> None:
    node.lists("a")
    node.registry.freeze(frozen=True)
    node.clock.sleep(1000)
    node.registry.freeze(frozen=False)
    assert (node.registry.current(GPU), node.health) == (None, {"a": ""})
    node.clock.sleep(GRACE_SECONDS)
    assert "is not connected" in node.health["a"]


def test_the_reason_of_a_refusal_is_the_health_until_the_next_registration(node: Node) -> None:
    registration = node.lists("a")
    node.registry.refuse(GPU, "it looks for its pod")
    node.lists("a", to=registration)
    assert node.health["a"] == "it looks for its pod"
    node.lists("a")
    assert node.health["a"] == ""


def test_resources_can_be_left_out() -> None:
    node = Node(ignore=["amd.com/*"])
    node.lists("a")
    assert (node.cards, node.health, node.registry.present(GPU, "a")) == ([], {}, False)


def test_the_labels_of_the_node_count_as_they_are_now() -> None:
    node = Node(resources={GPU: {"attributes": {"model": {"nodeLabel": "product"}}}})
    node.lists("a")
    for product in ("MI250", "MI300"):
        node.labels["product"] = product
        (card,) = node.registry.cards()
        assert card.bridged
        assert card.bridged.attributes == {"model": product}


def test_resources_ids_and_their_length_have_bounds(node: Node) -> None:
    node.lists("", "x" * (MOST_ID + 1), *(str(number) for number in range(MOST_IDS + 1)))
    assert len(node.cards) == MOST_IDS
    for number in range(MOST_RESOURCES - 1):
        assert node.registry.has_room(f"x/{number}")
        node.registry.begin(f"x/{number}", "x.sock")
    assert node.registry.has_room(GPU)
    assert not node.registry.has_room("x/another")


def test_a_device_plugin_that_makes_up_ids_is_remembered_in_bounds(node: Node) -> None:
    """What is known does not grow with the number of its lists; what claims have stays."""
    registration = node.lists(*(f"!{number}-0" for number in range(MOST_IDS)))
    node.registry.hold({(GPU, "0-0"), (GPU, "1-0")})
    for name in (1, 2, 3):
        node.clock.sleep(SAVE_SECONDS)
        node.lists(*(f"{number}-{name}" for number in range(MOST_IDS)), to=registration)
    cards = set(node.cards)
    assert len(cards) == 2 * MOST_IDS + 2
    assert {"0-0", "1-0"} <= cards
    assert {name.partition("-")[2] for name in cards} == {"0", "2", "3"}, "what went first is forgotten first"
    known = node.known[GPU]
    assert (len(known.devices), len(known.gone), set(known.failed)) == (MOST_IDS, MOST_IDS + 2, {"0-0", "1-0"})


def test_what_claims_may_have_had_stays_until_it_is_known_what_they_have(node: Node) -> None:
    node.lists("a")
    node.start()
    registration = node.lists(*(f"{number}-1" for number in range(MOST_IDS)))
    for name in (2, 3):
        node.lists(*(f"{number}-{name}" for number in range(MOST_IDS)), to=registration)
    assert "a" in node.cards
    node.registry.hold(())
    node.clock.sleep(KEPT_SECONDS)
    assert "a" not in node.cards


def test_lists_are_written_once_a_second_and_nothing_is_lost(node: Node) -> None:
    registration = node.lists("0")
    written = {node.files.read(KNOWN)}
    for number in range(1, 100):
        node.lists(str(number), to=registration)
        node.cards  # noqa: B018
        written.add(node.files.read(KNOWN))
    assert len(written) == 1
    node.clock.sleep(SAVE_SECONDS)
    assert len(node.cards) == 100
    node.start()
    assert len(node.cards) == 100


def test_the_socket_of_a_device_plugin_is_on_record_before_it_has_an_answer(node: Node) -> None:
    """One that changes its socket again and again has an answer once a second."""
    began = node.clock.monotonic()
    for resource, endpoint, seconds in (
        ("x/a", "1.sock", 0),
        ("x/b", "2.sock", 0),
        ("x/a", "3.sock", 1),
        ("x/a", "3.sock", 1),
        ("x/a", "4.sock", 2),
        ("x/b", "2.sock", 2),
    ):
        node.registry.begin(resource, endpoint)
        assert node.known[resource].endpoint == endpoint
        assert node.clock.monotonic() == began + seconds * SAVE_SECONDS


def test_a_resource_that_has_just_registered_has_time_for_its_list(node: Node) -> None:
    node.clock.sleep(1000)
    node.registry.begin(GPU, "amd.sock")
    node.clock.sleep(1)
    assert node.registry.lost_since() == {GPU: ("amd.sock", 1)}


def test_a_lost_resource_is_known_with_its_socket_and_since_when(node: Node) -> None:
    registration = node.lists("a")
    assert node.registry.lost_since() == {}
    node.registry.lost(registration)
    node.clock.sleep(7)
    assert node.registry.lost_since() == {GPU: ("amd.sock", 7)}


NAMES = st.sampled_from("abc")
LISTS = st.lists(st.builds(Reported, NAMES, st.booleans()), unique_by=lambda it: it.id).map(tuple)


@given(st.lists(st.tuples(LISTS, st.sets(NAMES))), st.floats(0, 9))
def test_an_id_is_listed_or_gone_and_what_is_unhealthy_has_failed(
    lists: list[tuple[tuple[Reported, ...], set[str]]], remember: float
) -> None:
    known, ever = KnownResource(), set[str]()
    for now, (devices, own) in enumerate(lists):
        known = after_list(known, devices, now, own=own, remember=remember)
        present = {device.id for device in devices}
        ever |= present
        assert set(known.gone) == ever - present
        assert {device.id for device in devices if not device.healthy} <= set(known.failed) <= ever
        healthy = {device.id for device in devices if device.healthy}
        assert not (own & healthy & set(known.failed)), "a plugin takes back what it said itself"
