"""The lists of device plugins become devices with health, whatever is in them and whenever they end."""

from dataclasses import replace

import pytest

from driver.deviceplugins import DevicePluginSettings, ResourceSettings
from driver.limits import MAX_HEALTH_MESSAGE
from kubeletplugin.hardware.deviceplugin.host import HostTimes
from kubeletplugin.hardware.deviceplugin.remembered import MOST_IDS
from tests.fakes.deviceplugin.script import TOO_LARGE, UNHEALTHY, Listed, Reaction, many, shares_of
from tests.unit.kubeletplugin.hardware.deviceplugin.conftest import MakeNode
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import HostedNode, comes_true

BOTH = {"card-a", "card-b"}
CARD = "example.com/card"


def test_a_card_that_fails_is_unhealthy_and_works_again_when_its_plugin_says_so(node: HostedNode) -> None:
    plugin = node.served()
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    assert "reports it as unhealthy" in node.health_of("card-a").message
    plugin.report(Listed("card-a"), Listed("card-b"))
    assert comes_true(lambda: node.ids() == BOTH)


@pytest.mark.parametrize("health", [UNHEALTHY, "healthy", "", "Unknown", "OK"])
def test_only_the_one_word_means_healthy(node: HostedNode, health: str) -> None:
    node.served(devices=(Listed("card-b"),))
    plugin = node.plugins[0]
    plugin.report(Listed("card-a", health), Listed("card-b"))
    assert comes_true(lambda: len(node.cards()) == 2)
    assert node.ids() == {"card-b"}


def test_a_card_that_is_missing_in_a_list_is_gone_and_stays_published(node: HostedNode) -> None:
    plugin = node.served()
    plugin.report(Listed("card-b"))
    assert comes_true(lambda: node.ids() == {"card-b"})
    assert "does not report it any more" in node.health_of("card-a").message
    plugin.report()
    assert comes_true(lambda: not node.ids())
    plugin.report(Listed("card-a"), Listed("card-b"))
    assert comes_true(lambda: node.ids() == BOTH)


@pytest.mark.parametrize(
    ("numa", "node_of_card"), [((), None), ((-1,), None), ((-1, 1), 1), ((3, 2), 2), ((2**62,), 2**62)]
)
def test_topology_may_be_absent_odd_or_several_nodes(
    node: HostedNode, numa: tuple[int, ...], node_of_card: int | None
) -> None:
    node.served(devices=(Listed("card-a", numa=numa),))
    assert node.card("card-a").numa_node == node_of_card


def test_odd_ids_are_devices_with_valid_names(node: HostedNode) -> None:
    ids = ("GPU-fef8089b-4820:1", "0000:18:00.0", "nvidia0/gi1", "a_b", "Ünïcode ☃", "x" * 200, "-", ".")
    node.served(devices=tuple(map(Listed, ids)))
    names = {card.name for card in node.cards()}
    assert len(names) == len(ids)
    assert all(name.replace("-", "").isalnum() and name.islower() and len(name) <= 63 for name in names)


def test_equal_ids_are_one_device_and_ids_that_are_none_are_left_out(node: HostedNode) -> None:
    node.served(devices=(Listed("card-b"),))
    plugin = node.plugins[0]
    plugin.report(Listed("card-a"), Listed("card-a", UNHEALTHY), Listed(""), Listed("y" * 5000), Listed("card-b"))
    assert comes_true(lambda: node.ids() == BOTH)
    assert len(node.cards()) == 2


def test_of_very_many_ids_as_many_as_fit_are_served(node: HostedNode) -> None:
    node.plugin(devices=many(10_000))
    assert comes_true(lambda: len(node.ids()) == MOST_IDS)


def test_a_list_that_is_too_long_for_a_message_harms_no_other_plugin(node: HostedNode) -> None:
    node.served(resource="example.com/other", endpoint="other.sock")
    plugin = node.plugin(devices=TOO_LARGE, reaction=Reaction.OWN_SOCKET_REMOVED)
    assert comes_true(lambda: plugin.called("ListAndWatch"))
    assert not comes_true(lambda: node.ids(), 0.5)
    assert node.ids("example.com/other") == BOTH
    plugin.report(Listed("card-a"))
    assert comes_true(lambda: node.ids() == {"card-a"})


def test_a_plugin_that_tells_nothing_has_no_devices_and_harms_no_other(node: HostedNode) -> None:
    silent = node.plugin(first_list_after_seconds=3.0, reaction=Reaction.NOTHING)
    node.served(resource="example.com/other", endpoint="other.sock")
    assert comes_true(lambda: silent.registrations == [""])
    assert node.cards() == []
    assert comes_true(lambda: node.ids() == BOTH)


def test_what_a_plugin_listed_a_moment_before_our_end_is_known_to_the_next_program(node: HostedNode) -> None:
    plugin = node.served()
    plugin.report(Listed("card-a"), Listed("card-b", UNHEALTHY), Listed("card-c"))
    assert comes_true(lambda: node.ids() == {"card-a", "card-c"})
    plugin.kill()
    node.restart()
    assert {card.bridged.device_id for card in node.cards() if card.bridged} == {"card-a", "card-b", "card-c"}


def test_an_empty_list_is_a_resource_without_devices(node: HostedNode) -> None:
    plugin = node.plugin(devices=())
    assert comes_true(lambda: plugin.called("ListAndWatch"))
    plugin.report(Listed("card-a"))
    assert comes_true(lambda: node.ids() == {"card-a"})


def test_a_killed_plugin_leaves_its_devices_published_and_unusable(node: HostedNode) -> None:
    plugin = node.served()
    plugin.kill()
    assert comes_true(lambda: not node.ids())
    assert len(node.cards()) == 2
    assert all("is not connected" in health.message for health in node.health().values())


# What a plugin forgets is remembered


def test_a_card_that_had_failed_stays_so_when_its_plugin_forgets(node: HostedNode) -> None:
    plugin = node.served()
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    plugin.kill()
    plugin.start()
    assert comes_true(lambda: len(plugin.registrations) == 2 and node.ids() == {"card-b"})
    assert "before it started anew" in node.health_of("card-a").message
    node.restart()
    assert comes_true(lambda: len(plugin.registrations) == 3 and node.ids() == {"card-b"})
    assert not comes_true(lambda: node.ids() == BOTH, 0.5)


def test_it_is_remembered_for_a_time_that_can_be_set(make_node: MakeNode) -> None:
    node = make_node(settings=DevicePluginSettings(remember_seconds=0.5))
    plugin = node.served()
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    plugin.kill()
    plugin.start()
    assert comes_true(lambda: node.ids() == BOTH)


def test_after_a_reboot_nothing_is_remembered(node: HostedNode) -> None:
    plugin = node.served()
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    plugin.script = replace(plugin.script, devices=(Listed("card-a"), Listed("card-b")))
    node.reboot()
    assert comes_true(lambda: node.ids() == BOTH)


def test_right_after_our_restart_the_devices_are_those_of_before(make_node: MakeNode) -> None:
    node = make_node(times=HostTimes())
    plugin = node.served(registers_after_seconds=0.5)
    node.restart()
    assert node.ids() == BOTH, "a plugin needs a moment to register again"
    assert comes_true(lambda: len(plugin.registrations) == 2)


# Replicas


def test_replicas_of_a_card_are_one_card_and_the_fault_of_one_is_its_own(node: HostedNode) -> None:
    node.served(devices=(*shares_of("GPU-a", 4), *shares_of("GPU-b", 4)))
    plugin = node.plugins[0]
    assert [len(card.bridged.ids) for card in node.cards() if card.bridged] == [4, 4]
    plugin.fail("GPU-a::3")
    assert comes_true(lambda: node.ids() == {f"GPU-b::{number}" for number in range(4)})


@pytest.mark.parametrize(
    ("replicas", "ids", "cards"),
    [
        ("auto", ("a-0", "a-1", "b-0"), 3),
        ("dashed", ("a-0", "a-1", "b-0"), 2),
        ("equal", ("0", "1", "2"), 1),
        ("none", ("a::0", "a::1"), 2),
        ("auto", ("a::0", "a::1"), 1),
        ("auto", ("a-_-0", "a-_-1"), 1),
        ("auto", ("nvidia0/vgpu0", "nvidia0/vgpu1"), 1),
    ],
)
def test_which_ids_are_one_card_is_known_or_set(
    make_node: MakeNode, replicas: str, ids: tuple[str, ...], cards: int
) -> None:
    settings = ResourceSettings.model_validate({"replicas": replicas})
    node = make_node(settings=DevicePluginSettings(resources={CARD: settings}))
    node.served(devices=tuple(map(Listed, ids)))
    assert len(node.cards()) == cards


def test_health_messages_are_bounded(node: HostedNode) -> None:
    plugin = node.served(devices=(Listed("x" * 200),))
    plugin.fail("x" * 200)
    assert comes_true(lambda: not node.ids())
    (health,) = node.health().values()
    assert len(health.message) <= MAX_HEALTH_MESSAGE
