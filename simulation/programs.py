"""The two programs of a simulated cluster, each built from what is in the API and on its node."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from controller.election import Election, Fence
from controller.loop import Controller
from driver.clock import Clock
from driver.files import Files
from driver.kube.api import Api
from driver.kube.reflector import Reflector
from driver.observe import Logger, Metrics
from driver.settings import Settings
from kubeletplugin.hardware import Hardware
from kubeletplugin.prepare import ClaimRef, PrepareError, Preparer
from kubeletplugin.publish import Publisher, PublishingMetrics
from simulation.faults import Crash
from simulation.kubernetes.dra_plugin import ClaimName, ClaimResponse, PluginDown

NAMESPACE = "lode-system"


class SimulatedProgram(Protocol):
    """What a cluster steps."""

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """Its watches."""
        ...

    def step(self) -> bool:
        """Do the next due piece of work; False if nothing is due."""
        ...

    def next_due(self) -> float | None:
        """When there is work again, if nothing changes."""
        ...


class SimulatedController:
    """``lode controller`` without its threads: it takes part in the leader election and works while it leads."""

    def __init__(self, api: Api, clock: Clock, settings: Settings, log: Logger, identity: str):
        section = settings.controller
        self._clock = clock
        self._election = Election(api, clock, NAMESPACE, section.lease_name, identity, section.lease_seconds)
        fenced = Fence(api, self._election)
        self.controller = Controller(fenced, clock, settings, Metrics(), log, identity)
        self.controller.pause()
        self._election_due = clock.monotonic()
        self.leads = False

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """What the controller watches while it leads; each leadership has new ones."""
        return self.controller.reflectors if self.leads else ()

    def step(self) -> bool:
        """Renew or acquire the Lease when that is due, else work if leading.

        Raises:
            Crash: leadership is lost; the program ends and must be started again.
        """
        if self._election_due <= self._clock.monotonic():
            self._election_due = self._clock.monotonic() + self._election.interval
            self._election.step()
        if self._election.leading and not self.leads:
            self.leads = True
            self.controller.resume()
            return True
        if self.leads and not self._election.leading:
            raise Crash("leadership lost")
        return self.leads and self.controller.step()

    def next_due(self) -> float | None:
        """When the election or the controller is due."""
        due = self.controller.next_due() if self.leads else None
        return self._election_due if due is None else min(due, self._election_due)


class SimulatedPlugin:
    """``lode kubeletplugin`` without its sockets: publisher and preparer of one node."""

    def __init__(
        self,
        api: Api,
        files: Files,
        clock: Clock,
        node: str,
        settings: Settings,
        hardware: Hardware,
        boot_id: str,
        log: Logger,
    ):
        metrics = Metrics()
        self.publisher = Publisher(api, clock, node, settings, hardware, PublishingMetrics(metrics), log)
        self.preparer = Preparer(api, files, clock, node, settings, hardware, boot_id, metrics, log)
        self.preparer.recover()
        self.reflectors = self.publisher.reflectors
        self.step = self.publisher.step
        self.next_due = self.publisher.next_due


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
        plugin = self._plugin()
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]
        try:
            results = plugin.preparer.prepare(refs)
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
        plugin = self._plugin()
        refs = [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in claims]
        try:
            errors = plugin.preparer.unprepare(refs)
        except Crash as crash:
            raise PluginDown("connection to the DRA driver lost") from crash
        return {uid: ClaimResponse(error.message if error else "") for uid, error in errors.items()}

    def _plugin(self) -> SimulatedPlugin:
        plugin = self._current()
        if plugin is None:
            raise PluginDown("DRA driver is not registered")
        return plugin
