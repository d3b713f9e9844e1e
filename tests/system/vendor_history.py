"""Seeded histories of one node on the real backends, whose vendors' libraries answer wrongly once, for a while, or for
as long as the history goes on.

Claims are allocated from what the plugin offers, as allocators do, and sometimes from what it offered once. They are
prepared and unprepared; the plugin is killed between any two calls of the library; the machine is rebooted.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from driver.kube.api import NODES
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.inventory import Inventory
from kubeletplugin.prepare import ClaimRef, PrepareError, PrepareResult
from kubeletplugin.prepare.storage import ClaimStorage
from kubeletplugin.publish.other_programs import GRACE_SECONDS
from tests.fakes.killed import dies
from tests.simulation.event_log import EventLog, EventLogger
from tests.system.history import HistoryFailed
from tests.system.vendor_faults import VendorFaults
from tests.system.vendor_kubelet import RUNTIME, OtherHands
from tests.system.vendor_machines import fakes_folder, machine_of
from tests.system.vendor_offers import Offers
from tests.system.vendor_plugin import POLL_SECONDS, VendorPlugin, copied, keep, kept, put, recorded_in
from tests.system.vendor_pods import Pod, parts_of
from tests.unit.kubeletplugin.plugin_node import NODE, PluginNode, opaque, result, share

EVENTS = (8, 24)
"""How many things happen."""
MOST_CLAIMS = 6
LONGEST_KILL = 60
"""The plugin is killed at one of its next calls of the library; at the end if it makes fewer."""
_OTHER_DRIVER = Settings().names.attribute("other-driver")
_TEST = ".venv/bin/python -m pytest tests/system/test_vendor_histories.py"
SETTLE_SECONDS = (1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 3600.0)
"""Pauses in which the plugin finds out that answers are good again. A card that failed counts as healthy after an hour
at most, and a release is tried again within a minute."""


class VendorHistory:
    """The history of one seed.

    What must hold: no card is in two hands, nor is anything taken from containers that run; nothing is on the cards
    that the checkpoint does not have; nothing is offered that was not known while answers are bad; and when they are
    good again, the plugin offers what a new one would, prepares what is allocated, and removes everything that ends.

    Args:
        folder: an empty folder, preferably in memory.
    """

    def __init__(self, seed: int, folder: Path):
        self.seed = seed
        self.random = random.Random(f"vendors' libraries of {seed}")
        self.rig = PluginNode()
        self.rig.api.patch(NODES, NODE, {"status": {"nodeInfo": RUNTIME}}, subresource="status")
        self.log = EventLog(self.rig.clock)
        self._folder = folder
        self.name, self.machine = machine_of(self.random, folder)
        self.faults = VendorFaults(self.machine, self.random)
        self.offers = Offers()
        self.hands = OtherHands(seed, self.rig.clock, self.machine.resource, self.machine.devices())
        self.pods: list[Pod] = []
        self.plugin: VendorPlugin | None = None
        self.inventory = Inventory((), ())
        """What is offered now."""
        self._runs = self._claims = 0
        self._announce: Callable[[], None] = lambda: None

    def play(self) -> None:
        """Play it.

        Raises:
            HistoryFailed: something that must hold does not.
        """
        self._note(f"a machine: {self.name}")
        self.first = self.machine.existing()
        try:
            self.offers.true(self._truth())
            self._start()
            for _ in range(self.random.randint(*EVENTS)):
                self._happen()
                self._check()
                if said := self.hands.act():
                    self._note(said)
            self._end()
        except AssertionError as error:
            lines = [
                f"history {self.seed} of vendors' libraries failed: {error}",
                f"reproduce: LODE_VENDOR_SEED={self.seed} {_TEST}",
                f"a machine: {self.name}",
                *self.log.last(200),
            ]
            raise HistoryFailed("\n".join(lines)) from error

    # What happens

    def _happen(self) -> None:
        events: Mapping[Callable[[], None], int] = {
            self._allocate: 6,
            self._prepare_one: 6,
            self._end_one: 4,
            self._forget_one: 1,
            self._err: 4,
            self._be_right: 1,
            self._settle: 1,
            self._wait: 3,
            self._restart: 2,
            self._kill: 3,
            self._reboot: 1,
        }
        (event,) = self.random.choices(list(events), list(events.values()))
        event()

    def _err(self) -> None:
        for line in self.faults.draw():
            self._note(line)

    def _be_right(self) -> None:
        self._note("some answers are good again")
        self.faults.pass_by()

    def _wait(self) -> None:
        self._pass(self.random.choice((1.0, 10.0, 60.0)))

    def _pass(self, seconds: float) -> None:
        """Let time pass, in which the plugin and the kubelet work."""
        self.rig.clock.advance(seconds)
        if self.plugin is not None:
            self._publish(self.plugin.work())
        for pod in [pod for pod in self.pods if pod.state == "ended"]:
            self._unprepare(pod)

    def _start(self) -> None:
        """Start the plugin, unless it runs."""
        if self.plugin is None:
            self._runs += 1
            self._note("the plugin starts")
            self.hands.started()
            self.offers.started()
            self.plugin = self._new()
            self._publish(self.plugin.work())

    def _restart(self) -> None:
        if self.random.random() < 0.5:
            self._err()
        self.plugin = None
        self._start()

    def _reboot(self) -> None:
        self._note("the machine is rebooted")
        self.plugin = None
        self.machine.reboot()
        self.rig.reboot()
        self.first = {key: which for key, which in self.machine.existing().items() if self.first.get(key) == which}
        for pod in self.pods:
            if pod.state == "running":
                pod.state, pod.has = ("pending", {}) if pod.allocated else ("ended", {})
        self._start()

    def _kill(self) -> None:
        """The plugin dies in one of its calls of the library, or when it has done its work."""
        self._start()
        plugin = self.plugin
        assert plugin is not None
        pending = [pod for pod in self.pods if pod.state == "pending" and pod.allocated]
        ended = [pod for pod in self.pods if pod.state != "pending"]
        act: Callable[[], object] = self._begin_again
        what, kind = "starts", self.random.choice(("start", "prepare", "prepare", "unprepare"))
        if kind == "prepare" and pending:
            pod = self.random.choice(pending)
            act, what = partial(plugin.preparer.prepare, [pod.ref]), f"prepares {pod.ref.name}"
        elif kind == "unprepare" and ended:
            pod = self.random.choice(ended)
            pod.state, pod.has = "ended", {}
            act, what = partial(_unprepare, plugin, pod.ref), f"unprepares {pod.ref.name}"
        self._die(plugin, what, act)
        self._start()

    def _die(self, plugin: VendorPlugin, what: str, act: Callable[[], object]) -> None:
        place, call = self._folder / "disk", self.random.randint(1, LONGEST_KILL)
        key = self.random.choice(("kill", "kill.after"))
        self._note(f"the plugin is killed while it {what}, {key} call {call}")
        self.machine.fake.change({key: self.machine.fake.calls() + call})

        def work() -> None:
            self._announce = plugin.announce = partial(keep, self.rig.files, place)
            self._announce()
            act()
            self._announce()

        dies(work)
        self.machine.fake.change({"kill": None})
        put(self.rig.files, kept(place))
        self.plugin = None

    def _begin_again(self) -> None:
        """What a plugin does that starts, and then is told of what has ended."""
        plugin = self._new()
        plugin.announce = self._announce
        plugin.work()

    # The kubelet and the allocator

    def _allocate(self) -> None:
        """An allocator gives a claim a device that is offered and free, as far as it knows, or any that once was."""
        if len(self.pods) >= MOST_CLAIMS:
            return
        fits = self.random.random() < 0.85
        held = [pod.device for pod in self.pods if pod.allocated]
        choices = self.offers.free(held) if fits else self.offers.ever()
        if not choices:
            return
        device = self.random.choice(choices)
        strategy = self.random.choice(self.machine.strategies) if device.endswith("-share") else ""
        name, identity = f"c{self._claims}", f"{self.random.getrandbits(32):08x}-0000-4000-8000-000000000000"
        self._claims += 1
        wanted = share(device, identity, "1Gi") if device.endswith("-share") else result(device)
        config = [opaque(kind="GpuConfig", sharing=strategy)] if strategy else []
        self.pods.append(Pod(self.rig.claim(name, [wanted], config), device, strategy, fits))
        self._note(f"{name} gets {device} {strategy} {'' if fits else 'by chance'}")

    def _prepare_one(self) -> None:
        if choices := [pod for pod in self.pods if pod.state != "ended" and pod.allocated]:
            self._prepare(self.random.choice(choices))

    def _prepare(self, pod: Pod) -> PrepareError | None:
        """The kubelet has a claim prepared, and its containers start."""
        plugin = self._running_plugin()
        busy = self._cards_at_work(pod)
        answer = plugin.preparer.prepare([pod.ref])[pod.ref.uid]
        if isinstance(answer, PrepareResult):
            self._note(f"{pod.ref.name} is prepared")
            self._run(pod)
            return None
        self._note(f"{pod.ref.name} is not prepared: {answer.reason}: {answer.message}")
        blamed = answer.reason == "invalid" and pod.fits and not busy and self.offers.is_true(pod.device)
        assert not blamed, f"the author of {pod.ref.name} is blamed for what the library answers: {answer.message}"
        return answer

    def _run(self, pod: Pod) -> None:
        others = [other for other in self.pods if other is not pod and other.state == "running"]
        two_hands = [other.ref.name for other in others if pod.excludes(other)]
        assert not two_hands, f"{pod.ref.name} and {two_hands} have the same card"
        keys, existing = self._recorded_keys(pod), self.machine.existing()
        has = {key: existing[key] for key in keys if key in existing}
        missing = sorted(keys - has.keys())
        assert not missing, f"{pod.ref.name} runs, and does not have {missing}"
        assert pod.state != "running" or pod.has == has, f"{pod.ref.name} runs, and has {has} instead of {pod.has}"
        pod.state, pod.has = "running", has

    def _end_one(self) -> None:
        """Containers end, or a pod is deleted before they start."""
        if choices := [pod for pod in self.pods if pod.state != "ended"]:
            self._stop(self.random.choice(choices))

    def _stop(self, pod: Pod) -> None:
        self._note(f"{pod.ref.name} ends")
        pod.state, pod.has = "ended", {}
        self._unprepare(pod)

    def _forget_one(self) -> None:
        """A pod and its claim are deleted by force while containers run."""
        if choices := [pod for pod in self.pods if pod.state == "running" and pod.allocated]:
            pod = self.random.choice(choices)
            self._note(f"{pod.ref.name} is deleted by force")
            self._free(pod)

    def _unprepare(self, pod: Pod) -> None:
        plugin = self._running_plugin()
        answer = plugin.preparer.unprepare([pod.ref])[pod.ref.uid]
        if answer is not None:
            self._note(f"{pod.ref.name} is not unprepared: {answer.message}")
            return
        if pod.allocated:
            self._free(pod)
        self.pods.remove(pod)
        while self.random.random() < 0.8 and plugin.preparer.retiring.step():
            pass

    def _free(self, pod: Pod) -> None:
        self.rig.release(pod.ref)
        pod.allocated = False

    # What must hold

    def _check(self) -> None:
        """Between two things that happen."""
        existing, recorded = self.machine.existing(), recorded_in(self.rig.files, self.rig)
        forgotten = existing.keys() - recorded.keys - self.first.keys()
        assert not forgotten, f"nobody knows that these exist: {sorted(forgotten)}"
        for key, which in self.first.items():
            assert existing.get(key) == which, f"{key} of an operator is {existing.get(key)} instead of {which}"
        for pod in self.pods:
            lost = {key: which for key, which in pod.has.items() if existing.get(key) != which}
            assert not lost, f"{pod.ref.name} runs, and no longer has {lost}"

    def _publish(self, inventory: Inventory | None) -> None:
        if inventory is None:
            return
        self.offers.true(self._truth())
        health = self._running_plugin().monitor.state.health
        failed = frozenset(name for name, one in health.items() if one.state == "fatal")
        wrong = self.hands.open(inventory, _OTHER_DRIVER)
        assert not wrong, f"what other programs hand out: {wrong}"
        self.inventory = inventory
        forgotten = self.offers.forgets(inventory)
        assert not forgotten, f"known, and not offered any more: {forgotten}"
        unknown = self.offers.publish(inventory, failed)
        assert not unknown, f"offered without being known: {unknown}"

    def _settle(self) -> None:
        """All answers are good, and the plugin comes to offer what a new one would."""
        self._note("all answers are good")
        self.faults.end()
        self._start()
        for seconds in SETTLE_SECONDS:
            self._pass(seconds)
            self._check()
            if not (difference := self._difference()):
                break
        assert not difference, f"it does not offer what a new plugin would: {difference}"
        self.offers.settled(self._truth())
        for pod in [pod for pod in self.pods if pod.state == "pending" and pod.allocated]:
            if not self._cards_at_work(pod) and pod.device in self.offers.free(()):
                error = self._prepare(pod)
                assert error is None, f"{pod.ref.name} is not prepared though all answers are good: {error}"

    def _end(self) -> None:
        """Everything ends; at first some answers are still bad."""
        self._note("everything ends")
        for pod in list(self.pods):
            self._stop(pod)
        self._pass(60.0)
        self._check()
        self._settle()
        for seconds in SETTLE_SECONDS:
            if not self.pods and not self._claims_left() and self.machine.existing() == self.first:
                break
            self._pass(seconds)
        left = {key: which for key, which in self.machine.existing().items() if self.first.get(key) != which}
        assert not left, f"left in the end: {left}"
        assert not self._claims_left(), f"claims that are left: {self._claims_left()}"
        self.hands.end()
        self._pass(2 * POLL_SECONDS)
        self._pass(2 * GRACE_SECONDS)
        wrong = self.hands.open(self.inventory, _OTHER_DRIVER, settled=True)
        assert not wrong, f"what other programs hand out: {wrong}"
        assert not self._difference(), f"it does not offer what a new plugin would: {self._difference()}"
        self._see_a_failure()

    def _see_a_failure(self) -> None:
        card, plugin = self.machine.fail(), self._running_plugin()
        self._pass(10.0)
        health = plugin.monitor.state.health
        assert not health[card].healthy, f"{card} has failed, and is {health[card]}"

    def _difference(self) -> str:
        """How what is offered differs from what a new plugin would offer; "" if it does not."""
        plugin = self._running_plugin()
        sick = {name: health for name, health in plugin.monitor.state.health.items() if not health.healthy}
        return f"unhealthy: {sick}" if sick else self.offers.difference(self._truth())

    def _truth(self) -> Inventory:
        """What a new plugin would offer if all answers were good."""
        with self.faults.suspended(self._folder / "good"):
            log = EventLogger(EventLog(self.rig.clock), "truth")
            plugin = VendorPlugin(self.rig, self._find, copied(self.rig.files), log, self.machine.sysfs)
            inventory = plugin.look()
            assert inventory is not None
            return inventory

    # Helpers

    def _new(self) -> VendorPlugin:
        log = EventLogger(self.log, f"plugin-{self._runs}")
        return VendorPlugin(self.rig, self._find, self.rig.files, log, self.machine.sysfs, self.hands)

    def _find(self) -> Hardware:
        return self.machine.start(self.rig.clock)

    def _running_plugin(self) -> VendorPlugin:
        self._start()
        assert self.plugin is not None
        return self.plugin

    def _cards_at_work(self, pod: Pod) -> Sequence[str]:
        """The recorded claims on the pod's card, besides its own."""
        card, _ = parts_of(pod.device)
        claims = ClaimStorage(self.rig.files, self.rig.settings).load().claims
        return [
            uid
            for uid, claim in claims.items()
            if uid != pod.ref.uid and any(parts_of(each.device.device)[0] == card for each in claim.plan.results)
        ]

    def _claims_left(self) -> Sequence[str]:
        return sorted(ClaimStorage(self.rig.files, self.rig.settings).load().claims)

    def _recorded_keys(self, pod: Pod) -> frozenset[str]:
        return ClaimStorage(self.rig.files, self.rig.settings).load().claims[pod.ref.uid].keys

    def _note(self, text: str) -> None:
        self.log.note("history", text)


def _unprepare(plugin: VendorPlugin, ref: ClaimRef) -> None:
    plugin.preparer.unprepare([ref])
    plugin.preparer.retiring.step()


def play(seed: int) -> None:
    """Play the history of a seed.

    Raises:
        HistoryFailed: something that must hold does not.
    """
    with fakes_folder() as folder:
        VendorHistory(seed, folder).play()
