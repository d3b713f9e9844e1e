"""The checks of device plugins find defects: histories fail if a program has one."""

import json
import re
from collections.abc import Callable, Collection
from typing import Any

import pytest

from driver.errors import TransientFault
from driver.kube.api import PODS, RESOURCE_CLAIM_TEMPLATES
from driver.kube.objects import pod_phase
from kubeletplugin.hardware import CardGone, Handle, Health
from kubeletplugin.hardware.actions import PluginAllocation, action_from
from kubeletplugin.hardware.card import Card
from kubeletplugin.hardware.deviceplugin.backend import DevicePluginHardware
from kubeletplugin.hardware.deviceplugin.kept_answers import KeptAnswers
from kubeletplugin.hardware.deviceplugin.registry import Registration, Registry
from simulation.invariants import Violation
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.device_plugins import CARD, FIRST_IDS, VendorPlugin
from tests.simulation.settled_checks import check_empty, check_settled
from tests.system.history import HistoryFailed, cards, play
from tests.system.objects import NAMESPACE, device_classes, pod, template
from tests.system.plugin_incidents import BRIDGED_REQUESTS

MOST_CALLS = 60


def _gives_replicas_that_are_in_use(patch: pytest.MonkeyPatch) -> None:
    chosen = DevicePluginHardware._chosen

    def careless(hardware: DevicePluginHardware, card: Card, count: int, busy: Collection[str]) -> tuple[str, ...]:
        return chosen(hardware, card, count, ())

    patch.setattr(DevicePluginHardware, "_chosen", careless)


def _forgets_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DevicePluginHardware, "_kept_for", lambda hardware, action: None)


def _keeps_no_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptAnswers, "keep", lambda kept, action, handle: None)


def _never_drops_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeptAnswers, "drop", lambda kept, action: None)


def _takes_answers_of_an_earlier_boot(patch: pytest.MonkeyPatch) -> None:
    def load(kept: KeptAnswers, name: str) -> Any:
        raw = json.loads(kept._files.read(f"{kept._folder}/{name}") or b"{}")
        return (action_from(raw["action"]), raw["handle"]) if raw else None

    patch.setattr(KeptAnswers, "_load", load)
    patch.setattr(KeptAnswers, "_name", lambda kept, action: f"{hash(action.key)}.json")


def _asks_before_it_is_recorded(patch: pytest.MonkeyPatch) -> None:
    actions = DevicePluginHardware.actions

    def hasty(hardware: DevicePluginHardware, use: Any, taken: Collection[str]) -> Any:
        found = actions(hardware, use, taken)
        for action in found:
            hardware.ensure(action)
        return found

    patch.setattr(DevicePluginHardware, "actions", hasty)


def _releases_only_what_is_reported(patch: pytest.MonkeyPatch) -> None:
    release = DevicePluginHardware.release

    def picky(hardware: DevicePluginHardware, action: PluginAllocation, handle: Handle | None) -> None:
        if hardware._registry.current(action.resource) is None:
            raise CardGone("its device plugin is gone")
        release(hardware, action, handle)

    patch.setattr(DevicePluginHardware, "release", picky)


def _withdraws_what_is_lost(patch: pytest.MonkeyPatch) -> None:
    hold = Registry.hold
    patch.setattr(Registry, "hold", lambda registry, held: hold(registry, ()))


def _does_not_notice_that_a_plugin_is_lost(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Registry, "lost", lambda registry, registration: False)


def _believes_in_health(patch: pytest.MonkeyPatch) -> None:
    health = Registry.health
    patch.setattr(Registry, "health", lambda registry: {key: Health() for key in health(registry)})


def _offers_nothing_while_a_plugin_is_lost(patch: pytest.MonkeyPatch) -> None:
    cards = Registry.cards

    def strict(registry: Registry) -> tuple[Card, ...]:
        if any(seconds > 0 for _, seconds in registry.lost_since().values()):
            raise TransientFault("a device plugin is not connected")
        return cards(registry)

    patch.setattr(Registry, "cards", strict)


def _forgets_other_plugins(patch: pytest.MonkeyPatch) -> None:
    lost = Registry.lost

    def clumsy(registry: Registry, registration: Registration) -> bool:
        for one in registry._resources.values():
            one.registration = None
        return lost(registry, registration)

    patch.setattr(Registry, "lost", clumsy)


DEFECTS: dict[Callable[[pytest.MonkeyPatch], None], tuple[int, str]] = {
    _gives_replicas_that_are_in_use: (0, "is in the hands of claims|of which claim"),
    _forgets_answers: (0, "is asked again for claim"),
    _keeps_no_answer: (0, "answers of device plugins are lost"),
    _never_drops_answers: (0, "answers of device plugins are kept for nobody"),
    _asks_before_it_is_recorded: (0, "which the checkpoint records for"),
    _releases_only_what_is_reported: (3, "is not released"),
    _withdraws_what_is_lost: (3, "is withdrawn, and a claim has it"),
    _does_not_notice_that_a_plugin_is_lost: (3, "is tainted: False, and its device plugin fails: True"),
    _believes_in_health: (0, "is tainted: False, and its device plugin fails: True"),
    _offers_nothing_while_a_plugin_is_lost: (3, "another card fails and is offered"),
    _forgets_other_plugins: (162, "is tainted: True, and its device plugin fails: False"),
}
"""A seed whose history finds the defect, and what it says then."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_history_finds_the_defect(
    defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    defect(monkeypatch)
    seed, message = DEFECTS[defect]
    with pytest.raises(HistoryFailed) as failed:
        play(seed)
    assert re.search(message, str(failed.value).partition("reproduce:")[0])


class _OnePod:
    """A pod with a device of a device plugin, on a cluster of one node."""

    def __init__(self, seed: int = 0):
        plugin = VendorPlugin(CARD, "example.sock", dict.fromkeys(FIRST_IDS[CARD], True))
        self.cluster = SimulatedCluster(
            seed, {"n1": cards("t4x2", 2)}, classes=device_classes(), device_plugins=lambda _: [plugin]
        )
        self.cluster.user.create(RESOURCE_CLAIM_TEMPLATES, template("bridged", BRIDGED_REQUESTS["bridged-2"]))
        self.cluster.settle()
        self.published = self.cluster.invariants.pools()

    def start(self) -> None:
        self.cluster.user.create(PODS, pod("first", template_name="bridged"))
        self.settle()

    def settle(self) -> None:
        self.cluster.settle()
        check_settled(self.cluster)
        (running,) = self.cluster.invariants.pods()
        assert pod_phase(running) == "Running"

    def end(self) -> None:
        self.cluster.user.delete(PODS, "first", NAMESPACE)
        self.cluster.settle()
        check_empty(self.cluster, self.published)

    @property
    def answered(self) -> list[int]:
        """In which boots of the node the device plugin has answered."""
        bridged = self.cluster.hardware["n1"].bridged
        assert bridged
        return [each.boots for each in bridged.plugins.answers.values()]


def test_a_device_plugin_is_asked_once_and_again_after_a_reboot() -> None:
    one = _OnePod()
    one.start()
    one.cluster.slots.kill("plugin-n1")
    one.settle()
    assert one.answered == [1]
    one.cluster.reboot("n1")
    one.settle()
    assert one.answered == [1, 2]
    one.end()


def test_an_answer_of_before_a_reboot_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _takes_answers_of_an_earlier_boot(monkeypatch)
    one = _OnePod()
    one.start()
    one.cluster.reboot("n1")
    with pytest.raises(Violation, match="from before the machine started again"):
        one.settle()


@pytest.mark.parametrize("power_lost", [False, True])
def test_our_program_may_die_before_any_of_its_calls_and_so_may_the_machine(power_lost: bool) -> None:
    for calls in range(1, MOST_CALLS, 4 if power_lost else 1):
        one = _OnePod(calls)
        one.cluster.slots.crash_after("plugin-n1", calls)
        if power_lost:
            one.cluster.user.create(PODS, pod("first", template_name="bridged"))
            one.cluster.run(MOST_CALLS)
            one.cluster.reboot("n1", power_lost=True)
            one.settle()
        else:
            one.start()
        # It is asked again only if it had answered and the answer was not yet kept.
        assert len([boots for boots in one.answered if boots == one.cluster.nodes["n1"].boots]) <= 2
        one.end()
        if one.cluster.slots.crash_pending("plugin-n1"):
            return
