"""Device plugins register with us as with the kubelet, and again whenever one of both starts anew."""

import threading
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from driver.deviceplugins import DevicePluginSettings
from kubeletplugin.hardware.deviceplugin.host import HostTimes
from tests.fakes.deviceplugin.plugin import HOST, ScriptedPlugin
from tests.fakes.deviceplugin.script import Listed, Reaction
from tests.unit.kubeletplugin.hardware.deviceplugin.conftest import MakeNode
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import SHORT, HostedNode, comes_true

BOTH = {"card-a", "card-b"}
RETURNING = [reaction for reaction in Reaction if reaction is not Reaction.NOTHING]


def test_a_plugin_that_registers_has_its_devices_published(node: HostedNode) -> None:
    node.served()
    assert node.ids() == BOTH


def test_a_plugin_that_waited_before_us_and_one_that_comes_late_are_served(make_node: MakeNode) -> None:
    node = make_node()
    node.host.close()
    (node.folder / HOST).unlink()
    waiting = node.plugin()
    node.start()  # the device plugin may register twice: its dial succeeds, and it sees the socket come
    assert comes_true(lambda: node.ids() == BOTH and waiting.registrations[-1:] == [""])
    node.served(resource="example.com/late", endpoint="late.sock", registers_after_seconds=0.3)


def test_a_plugin_whose_socket_our_start_removed_is_told_so_at_once(make_node: MakeNode) -> None:
    """Both have started anew: it serves, and waits for us with the name that is on record."""
    node = make_node(times=replace(SHORT, dial=60.0))
    plugin = node.served()
    node.host.close()
    (node.folder / HOST).unlink()
    plugin.kill()
    plugin.start()
    assert comes_true(lambda: plugin.endpoint)
    node.start()
    assert comes_true(lambda: len(plugin.registrations) >= 3 and plugin.registrations[-1] == "")
    assert "was removed" in plugin.registrations[1]
    assert comes_true(lambda: node.ids() == BOTH)


@pytest.mark.parametrize("reaction", RETURNING)
@pytest.mark.parametrize("endpoint", ["example.sock", "example.com_card"])
def test_whatever_a_plugin_looks_at_it_registers_again_after_our_restart(
    node: HostedNode, reaction: Reaction, endpoint: str
) -> None:
    plugin = node.served(reaction=reaction, endpoint=endpoint)
    for _ in range(2):
        starts = len(plugin.registrations)
        node.restart()
        assert comes_true(partial(_registered_since, plugin, starts))
        # Until a stream is open, the devices are known from before, and its end tells the plugin nothing.
        assert comes_true(lambda: node.registry.current("example.com/card")), plugin.registrations
        assert comes_true(lambda: node.ids() == BOTH)


def test_a_plugin_that_ends_without_us_survives_our_restart(node: HostedNode) -> None:
    plugin = node.served(reaction=Reaction.OWN_SOCKET_REMOVED, ends_without_host=True, host_seconds=10.0)
    node.restart()
    assert comes_true(lambda: len(plugin.registrations) == 2 and node.ids() == BOTH)
    assert plugin.alive


def test_a_plugin_that_ends_with_its_stream_is_served_when_its_container_starts_again(node: HostedNode) -> None:
    plugin = node.served(ends_with_stream=True)
    node.restart()
    assert comes_true(lambda: not plugin.alive or len(plugin.registrations) == 2)
    if not plugin.alive:
        plugin.start()
    assert comes_true(lambda: node.ids() == BOTH)


def test_another_name_of_the_socket_at_each_start_is_the_same_resource(node: HostedNode) -> None:
    plugin = node.served(stamps_endpoint=True)
    plugin.kill()
    assert comes_true(lambda: not node.ids())
    plugin.start()
    assert comes_true(lambda: node.ids() == BOTH)
    assert len(node.cards()) == 2


def test_a_plugin_that_registers_twice_has_one_set_of_devices(node: HostedNode) -> None:
    plugin = node.served(registers_times=2)
    assert comes_true(lambda: plugin.registrations == ["", ""])
    plugin.fail("card-a")
    assert comes_true(lambda: node.ids() == {"card-b"})
    assert len(node.cards()) == 2


def test_of_two_instances_the_newest_counts_and_the_end_of_the_other_changes_nothing(
    node: HostedNode,
) -> None:
    old = node.served()
    node.served(endpoint="newer.sock", devices=(Listed("card-a"), Listed("card-b"), Listed("card-c")))
    old.terminate()
    assert not comes_true(lambda: node.ids() != {*BOTH, "card-c"}, 0.5)


def test_plugins_stand_side_by_side_and_the_death_of_one_is_its_own(node: HostedNode) -> None:
    node.served()
    other = node.served(resource="other.com/fpga", endpoint="fpga.sock", devices=(Listed("card-a"),))
    other.kill()
    assert comes_true(lambda: not node.ids("other.com/fpga"))
    assert node.ids() == BOTH
    assert "not connected" in node.health_of("card-a", "other.com/fpga").message


def test_a_plugin_that_registers_again_and_again_and_never_lists_has_one_connection(node: HostedNode) -> None:
    silent = node.plugin(first_list_after_seconds=60.0, registers_times=20)
    assert comes_true(lambda: silent.registrations == [""] * 20)
    assert comes_true(lambda: silent.streams == 1)
    assert comes_true(lambda: threads_of("example.com/card") == 1)


def test_a_plugin_that_has_registered_and_never_lists_is_told_once_until_it_lists(make_node: MakeNode) -> None:
    with capture_logs() as lines:
        node = make_node(times=replace(SHORT, unlisted=0.2))
        node.plugin(first_list_after_seconds=2.0)

        def told() -> list[Any]:
            node.hardware.cards()
            event = "device plugin has registered and lists no devices"
            return [line for line in lines if line["event"] == event]

        assert comes_true(told)
        assert comes_true(lambda: node.ids() == BOTH)
        (line,) = told()
    assert (line["resource"], line["endpoint"]) == ("example.com/card", "example.sock")
    assert "see its log" in line["remedy"]


def test_a_second_plugin_of_a_resource_comes_when_the_first_has_listed_or_its_time_is_over(
    make_node: MakeNode,
) -> None:
    node = make_node(times=replace(SHORT, dial=1.0))
    silent = node.plugin(first_list_after_seconds=60.0)
    assert comes_true(lambda: silent.registrations == [""])
    second = node.plugin(endpoint="second.sock")
    assert comes_true(lambda: second.registrations)
    assert "at example.sock has registered and not listed its devices yet" in second.registrations[0]
    assert comes_true(lambda: node.ids() == BOTH), "it is served when it registers again"
    assert comes_true(lambda: silent.streams == 0), "the connection to the first one is closed"
    node.served(endpoint="third.sock", devices=(Listed("card-c"),))
    assert node.shows("lode_device_plugin_refusals_total", reason="unlisted")


def threads_of(resource: str) -> int:
    return sum(thread.name == f"device plugin {resource}" for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"has_options": False}, "UNIMPLEMENTED"),
        ({"version": "v1alpha"}, "version 'v1alpha' is not supported"),
        ({"announced_endpoint": "../example.sock"}, "not a plain file name"),
        ({"announced_endpoint": HOST}, "not a plain file name"),
        ({"announced_endpoint": "nobody.sock"}, "cannot be reached at nobody.sock"),
        ({"resource": "no-slash"}, "not the name of an extended resource"),
        ({"resource": "requests.example.com/card"}, "Kubernetes keeps"),
        ({"resource": "cards.kubernetes.io/card"}, "Kubernetes keeps"),
        ({"resource": "aliyun.com/gpu-mem"}, "looks for the pod itself"),
        ({"resource": "akri.sh/camera-1"}, "takes back"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(
    make_node: MakeNode, script: dict[str, str], message: str
) -> None:
    node = make_node(times=HostTimes(dial=0.3))
    plugin = node.plugin(**script)
    assert comes_true(lambda: plugin.registrations)
    assert message in plugin.registrations[0]
    assert node.hardware.cards() == ()
    node.served(resource="example.com/other", endpoint="other.sock")


def test_a_refused_plugin_that_is_corrected_is_served(make_node: MakeNode) -> None:
    refusing = {"example.com/card": "this node has the backend of its vendor"}
    node = make_node(refuse=lambda resource: refusing.get(resource, ""))
    plugin = node.plugin()
    assert comes_true(lambda: plugin.registrations)
    refusing.clear()
    assert comes_true(lambda: node.ids() == BOTH)


def test_resources_that_are_ignored_register_and_are_not_offered(make_node: MakeNode) -> None:
    node = make_node(settings=DevicePluginSettings(ignore=("*/monitoring",)))
    plugin = node.plugin(resource="gpu.intel.com/monitoring", endpoint="monitoring.sock")
    node.served()
    assert comes_true(lambda: plugin.registrations == [""])
    assert {card.bridged.resource for card in node.hardware.cards() if card.bridged} == {"example.com/card"}


@pytest.mark.parametrize("reaction", RETURNING)
def test_a_plugin_that_waits_after_a_loss_is_moved_to_register_again(node: HostedNode, reaction: Reaction) -> None:
    """Its socket is removed. If that does not help and no other plugin is disturbed, kubelet.sock is made anew."""
    plugin = node.served(reaction=reaction)
    plugin.play(replace(plugin.script, breaks_after_lists=0))
    assert comes_true(lambda: not node.ids())
    plugin.play(replace(plugin.script, breaks_after_lists=None))
    assert comes_true(lambda: node.ids() == BOTH), plugin.registrations


def test_plugins_that_are_fine_are_left_alone_while_another_does_not_come_back(make_node: MakeNode) -> None:
    node = make_node(times=SHORT)
    fine = node.served()
    lost = node.served(resource="example.com/lost", endpoint="lost.sock", reaction=Reaction.NOTHING)
    lost.kill()
    assert not comes_true(lambda: node.ids() != BOTH, 1.0)
    assert fine.registrations == [""]


def _registered_since(plugin: ScriptedPlugin, starts: int) -> bool:
    return "" in plugin.registrations[starts:]


def test_of_a_program_that_stops_the_sockets_and_what_is_known_stay(node: HostedNode) -> None:
    """docs/operating.md says so about uninstalling: nothing of claims is left."""
    node.served()
    node.give("claim", "card-a")
    node.take("claim", "card-a")
    node.host.close()
    assert sorted(path.name for path in node.folder.iterdir()) == ["example.sock", HOST]
    assert node.files.names("/state") == ["device-plugins.json"]
    assert not node.files.names("/state/answers")
