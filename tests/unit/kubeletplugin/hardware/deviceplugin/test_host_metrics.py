"""What an operator asks about device plugins has a series, with labels of a bounded number of values."""

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from driver.errors import LodeError
from driver.observe import Metrics
from kubeletplugin.hardware.deviceplugin.metrics import OTHERS, BridgeMetrics
from tests.fakes.deviceplugin.script import Answer, Refused, shares_of
from tests.unit.kubeletplugin.hardware.deviceplugin.conftest import MakeNode
from tests.unit.kubeletplugin.hardware.deviceplugin.hosted import HostedNode, comes_true

REGISTERED = "lode_device_plugin_registered"
HELD = "lode_device_plugin_held_devices"
AGE = "lode_device_plugin_list_age_seconds"
DEVICES = "lode_device_plugin_devices"
ERRORS = "lode_device_plugin_allocate_errors_total"
REFUSALS = "lode_device_plugin_refusals_total"
SHARED = "example.com/shared"


def counts(node: HostedNode) -> tuple[float | None, float | None]:
    """The devices that are healthy, and those that are not."""
    return node.shows(DEVICES, health="healthy"), node.shows(DEVICES, health="unhealthy")


def refuse(_ids: Sequence[str]) -> Answer:
    raise Refused("card is locked by firmware")


def look(_ids: Sequence[str]) -> Answer:
    raise Refused("no binding pod found on node n1: pending pod")


def hang(_ids: Sequence[str]) -> Answer:
    threading.Event().wait(1)
    return Answer()


def test_a_node_without_device_plugins_has_no_such_series(node: HostedNode) -> None:
    shown = node.metrics.text("/metrics") or b""
    assert not [line for line in shown.splitlines() if line.startswith(b"lode_device_plugin_")]


def test_who_is_connected_and_what_it_has_listed_is_shown(node: HostedNode) -> None:
    plugin = node.served()
    assert (node.shows(REGISTERED), node.shows(HELD), counts(node)) == (1, 0, (2, 0))
    assert 0 <= (node.shows(AGE) or 0) < 10
    plugin.fail("card-a")
    assert comes_true(lambda: counts(node) == (1, 1))


def test_what_claims_have_is_counted_also_when_the_plugin_has_gone_and_when_we_start_anew(node: HostedNode) -> None:
    plugin = node.served()
    node.served(resource=SHARED, endpoint="shared.sock", devices=shares_of("GPU-a", 4))
    node.give("whole", "card-a")
    node.give("slot", "GPU-a", resource=SHARED)
    node.cards()
    assert (node.shows(HELD), node.shows(HELD, SHARED)) == (1, 1)
    plugin.kill()
    assert comes_true(lambda: node.shows(REGISTERED) == 0)
    assert (node.shows(HELD), counts(node)) == (1, (0, 2))
    node.restart()
    node.cards()
    assert (node.shows(REGISTERED), node.shows(HELD), node.shows(AGE)) == (0, 1, None)


@pytest.mark.parametrize(
    ("allocate", "reason"),
    [
        (refuse, "refused"),
        (look, "looks-for-pod"),
        (hang, "timeout"),
        (lambda _: None, "answer"),
        (lambda _: Answer(annotations={"com.intel.fpga.mode": "region"}), "answer"),
    ],
)
def test_a_claim_that_gets_nothing_is_counted_with_the_kind_of_the_reason(
    node: HostedNode, allocate: object, reason: str
) -> None:
    node.served(allocate=allocate)
    with pytest.raises(LodeError):
        node.give("claim", "card-a")
    assert node.shows(ERRORS, reason=reason) == 1
    assert node.shows("lode_device_plugin_allocate_seconds_count") == 1
    assert node.shows(REFUSALS, reason="looks-for-pod") == (1 if reason == "looks-for-pod" else None)


def test_the_time_of_an_answer_is_recorded_once(node: HostedNode) -> None:
    node.served()
    node.give("claim", "card-a")
    node.give("claim", "card-a")
    assert node.shows("lode_device_plugin_allocate_seconds_count") == 1


def test_a_question_that_nobody_is_there_for_is_no_answer(node: HostedNode) -> None:
    plugin = node.served()
    (action,) = node.hardware.actions(node.use("claim", "card-a"), ())
    plugin.kill()
    assert comes_true(lambda: node.shows(REGISTERED) == 0)
    with pytest.raises(LodeError):
        node.hardware.ensure(action)
    assert node.shows(ERRORS, reason="not-connected") == 1
    assert node.shows("lode_device_plugin_allocate_seconds_count") is None


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"version": "v1alpha"}, "version"),
        ({"resource": "aliyun.com/gpu-mem"}, "name"),
        ({"announced_endpoint": "../example.sock"}, "endpoint"),
        ({"announced_endpoint": "nobody.sock"}, "unreachable"),
        ({"resource": "nvidia.com/gpu"}, "other-backend"),
    ],
)
def test_a_registration_that_is_refused_is_counted_with_the_kind_of_the_reason(
    make_node: MakeNode, script: dict[str, str], reason: str
) -> None:
    node = make_node(refuse=lambda resource: "the backend nvidia has it" if resource == "nvidia.com/gpu" else "")
    node.times = replace(node.times, dial=0.2)
    node.restart()
    plugin = node.plugin(**script)
    assert comes_true(lambda: node.shows(REFUSALS, plugin.script.resource, reason=reason))


def test_who_registers_many_names_makes_no_more_series_than_a_fixed_number() -> None:
    metrics = Metrics()
    bridge = BridgeMetrics(metrics)
    for number in range(200):
        bridge.refused(f"example.com/card-{number}", "name")
    bridge.refused("x" * 1000, "version")
    shown = (metrics.text("/metrics") or b"").decode()
    assert shown.count('\nlode_device_plugin_refusals_total{reason="name"') == 65
    assert f'lode_device_plugin_refusals_total{{reason="version",resource="{OTHERS}"}} 1.0' in shown
