"""Keeps this node's ResourceSlices as they should be: watches, compares, and writes what differs.

Steppable: its owner runs the reflectors and calls ``step`` at ``next_due``. It keeps no state on disk: a new instance
lists and compares. During a rolling update two instances usually want the same slices, so the second has nothing to do.
If they want different slices, each waits longer and longer before it overwrites those of the other.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from driver.errors import TransientFault
from driver.kube.api import NODES, RESOURCE_SLICES, AlreadyExists, ApiError, Conflict, NotFound, Object
from driver.kube.reflector import Delta, Reflector, Synced
from kubeletplugin.hardware import Card
from kubeletplugin.kubelet_devices import SilentKubelet
from kubeletplugin.node_context import NodeContext
from kubeletplugin.offers import Recorded
from kubeletplugin.publish.cards import CardMonitor
from kubeletplugin.publish.dropped import DroppedFields
from kubeletplugin.publish.metrics import PublishingMetrics
from kubeletplugin.publish.other_drivers import OtherProgram
from kubeletplugin.publish.other_programs import OtherPrograms
from kubeletplugin.publish.pool import PoolBuilder
from kubeletplugin.publish.poolview import PoolView
from kubeletplugin.publish.reports import ErrorReports
from kubeletplugin.publish.rewrite_backoff import RewriteBackoff
from kubeletplugin.publish.schedule import LONGEST_RETRY_SECONDS, Schedule, Trigger
from kubeletplugin.publish.slices import plan_writes
from kubeletplugin.publish.writer import SliceWriter

SETTLE_SECONDS = 0.2
"""Time in which events are gathered before a step: a kubelet deletes slices one by one."""
HEALTH_SECONDS = 5.0
"""Interval in which the health is read from the hardware."""


class Publisher:
    """Publishes the devices of one node.

    Args:
        wake: called, from any thread, when ``next_due`` may have moved forward.
        releasing: returns the names of devices on these cards that an earlier claim still holds. They are tainted.
        recorded: returns the recorded actions and devices of claims; without it, all partitions count as foreign.
        others: the programs that hand out the node's cards, too; without it, the kubelet is not asked for them.
    """

    def __init__(
        self,
        node: NodeContext,
        metrics: PublishingMetrics,
        wake: Callable[[], None] = lambda: None,
        releasing: Callable[[Collection[Card]], Collection[str]] = lambda _: (),
        recorded: Callable[[], Recorded] = Recorded,
        others: OtherPrograms | None = None,
    ):
        dropped, reports, now = DroppedFields(), ErrorReports(node.log), node.clock.monotonic
        self._clock = node.clock
        self._metrics = metrics
        self._reports = reports
        self._log = node.log
        self._schedule = Schedule(node.clock, wake, node.name)
        self._view = PoolView(node.name, node.settings.driver_name)
        self._cards = CardMonitor(node.hardware, node.log, releasing, recorded)
        self._others = others or OtherPrograms(node.clock, lambda: SilentKubelet(has_socket=False))
        self._programs: Mapping[str, tuple[OtherProgram, ...]] = {}
        """Other programs that have a card, by its name."""
        self._simulated = node.settings.kubeletplugin.hardware == "simulated"
        self._builder = PoolBuilder(node.name, node.settings, dropped, metrics, reports)
        self._writer = SliceWriter(node.api, self._view, dropped, metrics, reports, log=node.log)
        self._backoff = RewriteBackoff()
        self.reflectors = [
            Reflector(node.api, NODES, self.handle, field_selector=f"metadata.name={node.name}", now=now),
            Reflector(node.api, RESOURCE_SLICES, self.handle, field_selector=f"spec.nodeName={node.name}", now=now),
        ]
        self.published = False
        """Whether the complete pool has been published, and none of it was refused since.

        Stays true while slices are rewritten. In a rolling update, an instance that wants other slices ends only when
        this one is ready, and until then each overwrites the slices of the other."""
        self._complete = False
        """Whether the last comparison found no difference."""

    @property
    def node(self) -> Object | None:
        """The Node as last seen; None until everything is listed, and while it does not exist. Safe in any thread."""
        observed = self._view.observed()
        return observed[0] if observed else None

    def handle(self, delta: Delta) -> None:
        """Apply a change of the Node or of the slices. May be called from other threads than ``step``.

        An object that cannot be decoded is logged by its name, and counted.
        """
        matters, unreadable = self._view.handle(delta), self._view.unreadable()
        self._metrics.unreadable(resource.plural for resource, _ in unreadable)
        for (resource, name), problem in unreadable.items():
            self._reports.once("object cannot be decoded", kind=resource.kind, key=name, problem=problem)
        if matters:
            # A list is complete in itself; single events come in groups.
            self._schedule.request(Trigger.CHANGE, 0.0 if isinstance(delta, Synced) else SETTLE_SECONDS)

    def republish_now(self) -> None:
        """Compare at once, without a back-off. Called after each registration with the kubelet.

        A kubelet deletes the node's slices when it starts.
        """
        self._schedule.registered()

    def next_due(self) -> float | None:
        """Time of the next work for ``step``, in seconds of ``Clock.monotonic``; None: only after an event."""
        return self._schedule.next_due()

    def step(self) -> bool:
        """Compare and write, if that is due; returns whether anything was written or tried.

        Errors of the API and of the hardware are logged and retried after a growing pause. The published slices stay
        meanwhile.
        """
        trigger = self._schedule.start()
        if trigger is None:
            return False
        if trigger is Trigger.REGISTRATION:
            self._backoff = RewriteBackoff()
        observed = self._view.observed()
        if observed is None:
            return False
        try:
            changed = self._cards.refresh()
            changed = self._look_for_others(observed[0]) or changed
            if changed or trigger > Trigger.POLL or not self._complete:
                return self._reconcile(*observed)
            self._schedule.again(HEALTH_SECONDS)
            return False
        except TransientFault as error:
            self._failed("hardware not available", error)
        except (Conflict, AlreadyExists, NotFound) as error:
            self._failed("slice changed by another writer", error)
        except ApiError as error:
            self._failed("cannot write slices", error)
        return True

    def _look_for_others(self, node: Object) -> bool:
        """Find the cards that other programs have, too; returns whether that has changed. None has simulated cards."""
        if self._simulated:
            return False
        before = self._programs
        self._programs = self._others.find(self._cards.state.known, node, self._view.other_devices())
        return self._programs != before

    def _reconcile(self, node: Object, published: Iterable[Object]) -> bool:
        inventory = self._builder.inventory(node, self._cards.state, self._programs)
        desired = self._builder.pool(node, inventory)
        if desired is None:
            self.published = self._complete = False
            self._schedule.again(LONGEST_RETRY_SECONDS)
            return False
        actions, digest = plan_writes(desired, published), desired.digest
        self._complete = not actions
        if actions:
            wait = self._backoff.wait(digest, self._clock.monotonic())
            if wait > 0:
                self._schedule.again(wait)
                return False
            if not self._writer.carry_out(actions):
                self._schedule.again(0.0)
                return True
            self._log.info("slices published", pool=desired.slices[0].pool, writes=len(actions))
        self._backoff.confirmed = digest
        self.published = self._complete = True
        self._schedule.succeeded()
        self._metrics.record(inventory, self._cards.state, self._view.generation())
        self._schedule.again(HEALTH_SECONDS)
        return bool(actions)

    def _failed(self, event: str, error: Exception) -> None:
        pause = self._schedule.failed()
        self._log.warning(event, reason=str(error), status=getattr(error, "status", 0), retry_seconds=pause)
