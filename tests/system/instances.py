"""Seeded histories of one node on which instances of the plugin come and go while they work.

During a rolling update two instances serve one node: the new one starts while the old one carries out calls of the
kubelet. Each call has a thread of its own, as in gRPC's server, and another thread may run at any call of a port.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from driver.errors import LodeError
from driver.files import Files
from driver.observe import Metrics, logger
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import ClaimRef, PrepareError, Preparer, PrepareResult
from kubeletplugin.prepare.storage import ClaimStorage
from tests.simulation.faults import Crash
from tests.simulation.hardware import NodeHardware
from tests.simulation.process import Process
from tests.system.instance_ports import InstanceApi, InstanceClock, InstanceDisk, SlowHardware
from tests.system.turns import Condition, Turns
from tests.unit.kubeletplugin.plugin_node import CDI, NODE, PluginNode, Result, opaque, result, share

PODS = (4, 9)
RETRY_SECONDS = 60.0
"""A kubelet waits so long after a failed prepare."""
MOST_TRIES = 12
STOP_SECONDS = 20.0
"""How long calls of an instance that stops may go on."""
LONGEST_CALL_SECONDS = 200.0
"""Longer than a call retries, with slow hardware before and after."""
RELEASED_SECONDS = 900.0
"""By then everything that ended claims had is released."""

T = TypeVar("T")


@dataclass(slots=True)
class Instance:
    """One instance of the plugin: its process, and what it offers to the kubelet."""

    process: Process
    preparer: Preparer
    registered: bool = False
    stops: bool = False
    ended: bool = False
    calls: int = 0


@dataclass(slots=True)
class Pod:
    """A pod with one claim."""

    ref: ClaimRef
    results: Sequence[Result]
    mps: bool

    @property
    def needs(self) -> list[tuple[str, str, bool]]:
        """The devices: the card, the part of it, and whether with MPS."""
        return [(*_card_and_part(one["device"]), self.mps) for one in self.results]


@dataclass(slots=True)
class KubeletCall:
    """A call of the kubelet that is under way, or has ended."""

    began: float
    ended: bool = False
    answer: Any = None
    """None if the instance died over it, or if an unprepare was a success."""
    lost: bool = False


@dataclass
class InstancesHistory:
    """The history of one seed.

    What must hold: containers never share what excludes each other, have their files and what they need on the cards;
    every call ends; what one instance works on no other gives up; and in the end nothing is left.
    """

    seed: int
    rig: PluginNode = field(default_factory=lambda: PluginNode("a100x2"))
    log: list[str] = field(default_factory=list)
    running: dict[str, Pod] = field(default_factory=dict)
    """Pods whose containers run, by the uid of the claim."""
    allocated: dict[str, Pod] = field(default_factory=dict)
    """What the API says that is in use, by the uid of the claim."""

    def __post_init__(self) -> None:
        self.random = random.Random(f"instances of {self.seed}")
        self.turns = Turns(self.random, self.rig.clock, self._look)
        self.hardware = NodeHardware(self.rig.profile, NODE)
        self.instances: list[Instance] = []
        self.calls: list[KubeletCall] = []
        self.pods_left = self.random.randint(*PODS)
        self._looked = -1

    def play(self) -> None:
        """Play it.

        Raises:
            AssertionError: something that must hold does not, with the seed and what happened.
        """
        self.turns.start("daemonset", self._daemonset)
        for number in range(self.pods_left):
            self.turns.start(f"pod-{number}", partial(self._pod, number))
        try:
            self.turns.run()
            self._check_nothing_is_left()
        except AssertionError as error:
            lines = "\n".join(self.log[-200:])
            raise AssertionError(f"history {self.seed} of instances failed: {error}\n{lines}") from error

    # Instances

    def _daemonset(self) -> None:
        """Start an instance, replace it a few times, and stop the last one when nothing is left to do."""
        self._start_instance()
        for _ in range(self.random.randint(1, 4)):
            self.turns.sleep(self.random.choice((0.1, 2.0, 15.0, 70.0)))
            old = self.instances[-1]
            kind = self.random.choice(("rolls", "rolls", "rolls and kills", "dies"))
            if kind == "dies":
                self._kill(old)
                self.turns.sleep(self.random.choice((0.0, 1.0, 30.0)))
                self._start_instance()
                continue
            self._start_instance()
            self.turns.wait(lambda: self.instances[-1].registered)
            self.turns.sleep(self.random.choice((0.0, 1.0, 10.0)))
            if kind == "rolls":
                self._stop(old)
            self._kill(old)
        self.turns.wait(lambda: not self.pods_left)
        self._wait_for_release()
        self._stop(self.instances[-1])

    def _start_instance(self) -> None:
        number = len(self.instances)
        process = Process(f"plugin-{number}", lambda _: self.turns.wait())
        rig = self.rig

        def wait(ready: Condition, seconds: float | None = None) -> None:
            self.turns.wait(lambda: ready() or not process.alive, seconds)
            if not process.alive:
                raise Crash(process.name)

        def pause() -> None:
            if self.random.random() < 0.2:
                wait(lambda: False, self.random.choice((0.5, 3.0, 12.0)))

        files = Files(InstanceDisk(rig, process, wait))
        api, clock = InstanceApi(rig, process, self.random), InstanceClock(rig, lambda s: wait(lambda: False, s))
        cards = SlowHardware(self.hardware, process, pause)
        node = NodeContext(
            name=NODE,
            settings=rig.settings,
            boot_id=rig.boot_id,
            api=api,
            clock=clock,
            files=files,
            hardware=HardwarePorts(cards, cards),
            log=logger("instances"),
        )
        preparer = Preparer(node, Metrics())
        instance = Instance(process, preparer)
        self.instances.append(instance)
        self._note(f"{process.name} starts")
        self.turns.start(process.name, partial(self._instance, instance, wait))

    def _instance(self, instance: Instance, wait: Callable[[Condition, float], None]) -> None:
        preparer, monotonic = instance.preparer, self.rig.clock.monotonic

        def until_done(act: Callable[[], T]) -> None:
            while True:
                try:
                    act()
                    return
                except (LodeError, OSError):
                    wait(lambda: False, 1.0)

        try:
            until_done(preparer.tidy)
            instance.registered = True
            self._note(f"{instance.process.name} is registered")
            until_done(preparer.restore)
            while not instance.stops:
                if not preparer.retiring.step():
                    pause = min(10.0, max(0.1, preparer.retiring.next_due() - monotonic()))
                    wait(lambda: instance.stops, pause)
            self.turns.wait(lambda: not instance.calls or not instance.process.alive)
            until_done(preparer.leave)
        except Crash:
            self._note(f"{instance.process.name} has died")
        instance.ended = True

    def _stop(self, instance: Instance) -> None:
        """It is not called any more, and ends when its calls have ended, or after a while."""
        self._note(f"{instance.process.name} stops")
        instance.registered, instance.stops = False, True
        self.turns.wait(lambda: instance.ended and not instance.calls, STOP_SECONDS)
        self._kill(instance)

    def _kill(self, instance: Instance) -> None:
        instance.registered = instance.process.alive = False

    def _current(self) -> Instance | None:
        """The instance that the kubelet calls: the one that registered last."""
        return next((one for one in reversed(self.instances) if one.registered), None)

    # The kubelet

    def _call(self, name: str, act: Callable[[Preparer], object]) -> KubeletCall:
        """A call of the kubelet to the instance that it knows then."""
        call = KubeletCall(self.rig.clock.monotonic())
        self.calls.append(call)

        def work() -> None:
            instance = self._current()
            if instance is None:
                call.lost = True
            else:
                instance.calls += 1
                try:
                    call.answer = act(instance.preparer)
                except Crash:
                    call.lost = True
                instance.calls -= 1
            call.ended = True
            self.calls.remove(call)

        self.turns.start(name, work)
        return call

    def _pod(self, number: int) -> None:
        """A pod from its allocation to its end."""
        try:
            self.turns.sleep(self.random.choice((0.0, 0.0, 1.0, 20.0, 90.0)))
            pod = self._allocate(f"c{number}")
            if pod is not None:
                self._live(pod)
        finally:
            self.pods_left -= 1

    def _live(self, pod: Pod) -> None:
        """Prepare, run and unprepare it."""
        gone_at = self.rig.clock.monotonic() + self.random.choice((0.0, 2.0, 30.0)) if self._by_chance(0.2) else None
        for _ in range(MOST_TRIES):
            call = self._prepare(pod, gone_at)
            if not call.ended:
                self._note(f"{pod.ref.name} is deleted while it starts")
                break
            if isinstance(call.answer, PrepareResult):
                self._run(pod)
                break
            self._note(f"{pod.ref.name} is not prepared: {call.answer}")
            if isinstance(call.answer, PrepareError) and "it was unprepared meanwhile" in call.answer.message:
                raise AssertionError(f"{pod.ref} was given up while it was prepared")
            self.turns.sleep(RETRY_SECONDS)
        else:
            raise AssertionError(f"{pod.ref} is not prepared after {MOST_TRIES} tries")
        self._unprepare(pod)

    def _prepare(self, pod: Pod, gone_at: float | None) -> KubeletCall:
        """Call until there is an answer, or until the pod is deleted: then the kubelet withdraws the call."""
        withdrawn = False
        ref = pod.ref
        call = self._call(f"prepare {ref.name}", lambda plugin: plugin.prepare([ref], lambda: not withdrawn)[ref.uid])
        self.turns.wait(lambda: call.ended, None if gone_at is None else gone_at - self.rig.clock.monotonic())
        withdrawn = not call.ended
        return call

    def _run(self, pod: Pod) -> None:
        """Containers run for a while; sometimes their pod and claim are deleted by force before they have ended."""
        self._note(f"{pod.ref.name} runs")
        self.running[pod.ref.uid] = pod
        self._looked = -1
        self.turns.sleep(self.random.choice((0.0, 5.0, 100.0)))
        if self._by_chance(0.3):
            self._free(pod)
            self._note(f"{pod.ref.name} is deleted by force")
            self.turns.sleep(self.random.choice((1.0, 25.0)))
        del self.running[pod.ref.uid]
        self._note(f"{pod.ref.name} has ended")

    def _unprepare(self, pod: Pod) -> None:
        for _ in range(MOST_TRIES):
            call = self._unprepare_once(pod.ref)
            if not call.lost and call.answer is None:
                break
            self._note(f"{pod.ref.name} is not unprepared: {call.answer}")
            self.turns.sleep(10.0)
        else:
            raise AssertionError(f"{pod.ref} is not unprepared after {MOST_TRIES} tries")
        if pod.ref.uid in self.allocated:
            self._free(pod)

    def _unprepare_once(self, ref: ClaimRef) -> KubeletCall:
        call = self._call(f"unprepare {ref.name}", lambda plugin: plugin.unprepare([ref])[ref.uid])
        self.turns.wait(lambda: call.ended)
        return call

    # The allocator

    def _allocate(self, name: str) -> Pod | None:
        """A claim for something that no other claim has, as far as the API knows; None if nothing was found."""
        for _ in range(20):
            card = self.random.randrange(2)
            mps = False
            match self.random.choice(("whole", "share", "mps", "part", "part")):
                case "whole":
                    results = [result(f"gpu-{card}")]
                case "part":
                    results = [result(f"gpu-{card}-mig-1g-5gb-{self.random.randrange(7)}")]
                case kind:
                    mps = kind == "mps"
                    identity = f"{self.random.getrandbits(32):08x}-0000-4000-8000-000000000000"
                    results = [share(f"gpu-{card}-share", identity)]
            config = [opaque(kind="GpuConfig", sharing="mps")] if mps else []
            wanted = Pod(ClaimRef("", "", ""), results, mps)
            if not any(_exclude(wanted, other) for other in self.allocated.values()):
                pod = Pod(self.rig.claim(name, results, config), results, mps)
                self.allocated[pod.ref.uid] = pod
                self._note(f"{name} gets {[one['device'] for one in results]}")
                return pod
        return None

    def _free(self, pod: Pod) -> None:
        self.rig.release(pod.ref)
        del self.allocated[pod.ref.uid]

    # What must hold

    def _look(self) -> None:
        """Look at what containers have; between two turns."""
        now = self.rig.clock.monotonic()
        if late := [call for call in self.calls if now - call.began > LONGEST_CALL_SECONDS]:
            raise AssertionError(f"{len(late)} calls do not end")
        if self._looked == (changes := self.rig.files.disk.changes):
            return
        self._looked = changes
        existing = self.hardware.store.load().existing
        content = self.rig.files.disk.content()
        uuids = {card.name: card.uuid for card in self.hardware.cards_of_node.cards()}
        pods = list(self.running.values())
        for number, pod in enumerate(pods):
            if others := [other.ref.name for other in pods[:number] if _exclude(pod, other)]:
                raise AssertionError(f"{pod.ref.name} and {others} have the same devices")
            spec = json.loads(content.get(f"{CDI}/lode.dev-claim_{pod.ref.uid}.json") or b'{"devices": []}')
            mounts = [mount for one in spec["devices"] for mount in one["containerEdits"].get("mounts") or ()]
            if not mounts or any(mount["hostPath"] not in content for mount in mounts):
                raise AssertionError(f"files of {pod.ref.name}, which runs, are missing")
            for card, part, mps in pod.needs:
                wanted = f"mps:{uuids[card]}" if mps else f"mig:{uuids[card]}:1g.5gb:{part}" if part.isdigit() else ""
                if wanted and wanted not in existing:
                    raise AssertionError(f"{wanted} does not exist, though {pod.ref.name} runs")

    def _wait_for_release(self) -> None:
        until = self.rig.clock.monotonic() + RELEASED_SECONDS
        while self._left() and self.rig.clock.monotonic() < until:
            self.turns.sleep(10.0)

    def _left(self) -> list[str]:
        """What is left of claims: on the cards, on the disk and in the checkpoint."""
        before, self.rig.files.disk.before = self.rig.files.disk.before, None
        try:
            recorded = ClaimStorage(self.rig.files, self.rig.settings).load().claims
        finally:
            self.rig.files.disk.before = before
        return [*self.hardware.store.load().existing, *self.rig.claim_files(), *recorded]

    def _check_nothing_is_left(self) -> None:
        if left := self._left():
            raise AssertionError(f"left in the end: {left}")

    def _by_chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def _note(self, text: str) -> None:
        self.log.append(f"{self.rig.clock.monotonic():8.1f} {text}")


def _card_and_part(device: str) -> tuple[str, str]:
    """The card of a device, and the part of it: "" for all, ``share``, or the place of a MIG instance."""
    unit, number, *rest = device.split("-")
    return f"{unit}-{number}", rest[-1] if rest else ""


def _exclude(one: Pod, other: Pod) -> bool:
    """Whether two pods cannot have what they want at once."""
    return any(
        mine[0] == theirs[0]
        and not (mine[1] == theirs[1] == "share" and mine[2] == theirs[2])
        and not (mine[1].isdigit() and theirs[1].isdigit() and mine[1] != theirs[1])
        for mine in one.needs
        for theirs in other.needs
    )
