"""The two programs of a simulated cluster. Each starts with the state in the API and on its node only."""

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Protocol

from controller.election import Election, LeaseTerms
from controller.loop import Controller, Ports
from controller.state import StateDelta
from controller.writing import Channel, Lane, WriteResult
from driver.clock import Clock
from driver.errors import LodeError
from driver.kube.api import Api
from driver.kube.reflector import Reflector
from driver.names import CONTROLLER_NAMESPACE
from driver.observe import Logger, Metrics
from driver.settings import Settings
from kubeletplugin.hardware import HardwarePorts
from kubeletplugin.kubelet_devices import KubeletClaim
from kubeletplugin.node_context import NodeContext
from kubeletplugin.prepare import ClaimRef, DeviceStatusWriter, PrepareError, Preparer
from kubeletplugin.prepare.storage import plugin_directory
from kubeletplugin.publish import Publisher, PublishingMetrics
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse, PluginDown
from tests.simulation.decision_checks import DecisionChecks, WatchedWrites
from tests.simulation.faults import Crash
from tests.simulation.hold_checks import HoldChecks
from tests.simulation.named_drivers import SteppedGuard
from tests.simulation.stepped_writes import Latency, SteppedWrites
from tests.simulation.victim_checks import VictimChecks

NAMESPACE = CONTROLLER_NAMESPACE

_RESTORE_PAUSE_SECONDS = 10.0
"""Pause between tries to restore claims whose cards did not answer."""


class SimulatedProgram(Protocol):
    """A program as a cluster steps it."""

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """Its watches."""
        ...

    def step(self) -> bool:
        """Do the next due piece of work; False if nothing is due."""
        ...

    def next_due(self) -> float | None:
        """Time of the next work, if nothing changes."""
        ...


@dataclass(frozen=True, slots=True)
class ProgramPorts:
    """The ports of one simulated program."""

    api: Api
    clock: Clock
    log: Logger


class SimulatedController:
    """``lode controller`` without its threads: it takes part in the leader election and works while it leads.

    Args:
        latency: time until the answers to its writes.
        randomness: chooses the next step: a decision, or a call for one of the sequences of writes under way.
        found: faults of its decisions are added here.
        guard: looks at the admission policies, if these change.
    """

    def __init__(
        self,
        ports: ProgramPorts,
        settings: Settings,
        identity: str,
        *,
        latency: Latency,
        randomness: random.Random,
        found: list[str],
        guard: SteppedGuard | None = None,
    ):
        section, api, clock = settings.controller, ports.api, ports.clock
        self._clock = clock
        terms = LeaseTerms(NAMESPACE, section.lease_name, section.lease_seconds, section.longest_write_seconds)
        self._election = Election(api, clock, terms, identity)
        self._random = randomness
        self._writes = SteppedWrites(
            Channel(api, self._election, lambda result: self._answered(result), clock),
            choose=randomness.choice,
            latency=latency,
            bounds={Lane.PLACING: section.writes_in_flight, Lane.REPORTING: 2},
        )
        self._checks = DecisionChecks(found, lambda: self.reflectors, settings.names)
        self._holds = HoldChecks(lambda: self.controller, clock, found, section.hold)
        self._victims = VictimChecks(lambda: self.controller, clock, found, section.preemption)
        writes = WatchedWrites(self._writes, self._checks.look, self._holds.look, self._victims.look)
        self._metrics = Metrics()
        self.controller = Controller(
            Ports(api, writes, clock, self._metrics, ports.log),
            settings,
            identity,
            deliver=self._delivered,
            unsafe=lambda: guard.problem if guard else "",
        )
        self._guard = guard
        self.reflectors: Sequence[Reflector] = self.controller.reflectors
        self._election_due = clock.monotonic()
        self._term: int | None = None

    def _answered(self, result: WriteResult) -> None:
        self._victims.hear(result)
        self.controller.handle(result)

    def _delivered(self, delta: StateDelta) -> None:
        self._checks.tell(delta)
        self.controller.handle(delta)

    def end(self) -> None:
        """Do what the program does last on SIGTERM: release the Lease, if no write may yet be made."""
        if not self.controller.in_doubt:
            self._election.release()

    @property
    def leads(self) -> bool:
        """Whether this controller may write."""
        return self._election.term is not None

    @property
    def holds_lease(self) -> bool:
        """Whether this controller believes that the Lease is its own."""
        return self._election.leading

    @property
    def held_nodes(self) -> int:
        """Number of held nodes, as its metrics say."""
        return int(self._metrics.registry.get_sample_value("lode_controller_held_nodes") or 0)

    @property
    def holds_changed_at(self) -> float:
        """When nodes were last held back, or no longer (monotonic seconds)."""
        return self._holds.changed_at

    def step(self) -> bool:
        """Take part in the election when that is due, else make a call, else decide."""
        if self._election_due <= self._clock.monotonic():
            self._election_due = self._clock.monotonic() + self._election.interval
            self._election.step()
        if self._guard is not None:
            self._guard.step()
        self._follow_election()
        steps = [self._writes.step, self.controller.step]
        self._random.shuffle(steps)
        stepped = any(step() for step in steps)
        self._holds.follow()
        return stepped

    def next_due(self) -> float | None:
        """Time of the next work of the election, the controller or a write."""
        if self._term != self._election.term:
            return self._clock.monotonic()
        looks = None if self._guard is None else self._guard.due
        times = (self._election_due, self.controller.next_due(), self._writes.next_due(), looks)
        return min(due for due in times if due is not None)

    def _follow_election(self) -> None:
        term = self._election.term
        if term == self._term:
            return
        self._term = term
        if term is None:
            self.controller.follow()
        else:
            self.controller.lead(term)


class SimulatedPlugin:
    """``lode kubeletplugin`` without its sockets: publisher and preparer of one node, and what writes to claims."""

    def __init__(self, node: NodeContext, kubelet_claims: Callable[[], Collection[KubeletClaim]]):
        metrics = Metrics()
        self._clock = node.clock
        cards = node.remembered_cards(plugin_directory(node.settings))
        node = replace(node, hardware=HardwarePorts(cards, node.hardware.control))
        self.device_status = DeviceStatusWriter(node)
        self.preparer = Preparer(node, metrics, kubelet_claims=kubelet_claims, device_status=self.device_status)
        self.publisher = Publisher(
            node,
            PublishingMetrics(metrics),
            releasing=self.preparer.retiring.releasing,
            recorded=self.preparer.recorded,
        )
        self.preparer.tidy()
        self.preparer.restore()
        self._restore_due = node.clock.monotonic() + _RESTORE_PAUSE_SECONDS
        self.reflectors = self.publisher.reflectors
        self.prepared: set[str] = set()
        """The uids of the claims that this process has prepared."""
        self.busy = False
        """Whether claims are prepared or released. Another thread would wait for the lock; here it comes later."""

    def step(self) -> bool:
        """Publish, else say which cards claims have, else release what claims had that were given up, unless the plugin
        is busy.
        """
        if self.publisher.step() or self.device_status.step():
            return True
        if self.busy:
            return False
        with self.working():
            return self._restored() or self.preparer.retiring.step()

    def _restored(self) -> bool:
        if not self.preparer.unrestored or self._clock.monotonic() < self._restore_due:
            return False
        self._restore_due = self._clock.monotonic() + _RESTORE_PAUSE_SECONDS
        with suppress(LodeError, OSError):
            self.preparer.restore_rest()
        return True

    @contextmanager
    def working(self) -> Iterator[None]:
        """The plugin is busy meanwhile."""
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def next_due(self) -> float | None:
        """Time of the next work to publish, write to claims, release or restore."""
        times = [self.publisher.next_due(), self.device_status.next_due(), self.preparer.retiring.next_due()]
        if self.preparer.unrestored:
            times.append(self._restore_due)
        return min(due for due in times if due is not None)


class PluginConnection:
    """The connection of a node's fake kubelet to the plugin. Implements ``DraPlugin`` for whichever process is up.

    Args:
        current: returns the plugin; None while it is down.
    """

    def __init__(self, current: Callable[[], SimulatedPlugin | None]):
        self._current = current

    def registered(self) -> None:
        """Notify the plugin that it is registered."""
        self._plugin().publisher.republish_now()

    def prepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodePrepareResources."""
        plugin = self._idle_plugin()
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]
        try:
            with plugin.working():
                results = plugin.preparer.prepare(refs)
            plugin.prepared |= {uid for uid, result in results.items() if not isinstance(result, PrepareError)}
        except Crash as crash:
            raise PluginDown("connection to the DRA driver lost") from crash
        return {
            uid: ClaimResponse(result.message)
            if isinstance(result, PrepareError)
            else ClaimResponse(cdi_ids=tuple(i for device in result.devices for i in device.cdi_ids))
            for uid, result in results.items()
        }

    def unprepare(self, claims: Sequence[ClaimName]) -> Mapping[str, ClaimResponse]:
        """NodeUnprepareResources."""
        plugin = self._idle_plugin()
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]
        try:
            with plugin.working():
                errors = plugin.preparer.unprepare(refs)
        except Crash as crash:
            raise PluginDown("connection to the DRA driver lost") from crash
        return {uid: ClaimResponse(error.message if error else "") for uid, error in errors.items()}

    def _plugin(self) -> SimulatedPlugin:
        plugin = self._current()
        if plugin is None:
            raise PluginDown("DRA driver is not registered")
        return plugin

    def _idle_plugin(self) -> SimulatedPlugin:
        plugin = self._plugin()
        if plugin.busy:
            raise PluginDown("the DRA driver did not answer in time: it releases claims")
        return plugin
