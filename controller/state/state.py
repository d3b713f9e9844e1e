"""The state of the cluster, kept up to date change by change. Pure.

The API holds the truth. The state is its last answer, plus decisions that are not known to be written yet. An
older version of an object never replaces a newer one, so a watch that lags behind the controller's own writes cannot
make a device look free again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from controller.allocation import Fleet
from controller.cluster import Cluster
from controller.placement import Needs, Nodes, volume_facts
from controller.quotas import QuotaLedger
from controller.state.budgets import BudgetHandler, Budgets, budget_from
from controller.state.changes import Changes, Followed, Kinds, Touched
from controller.state.claims import Claims, Promise, consumer_of, holds_devices_of
from controller.state.devices import DeviceClasses, DeviceKinds, SliceNodes
from controller.state.gangs import Gangs
from controller.state.handlers import (
    ClaimHandler,
    Indexes,
    PodCounter,
)
from controller.state.kept_places import KeptPlace, KeptPlaces
from controller.state.kinds import (
    VOLUME_RESOURCES,
    DecisionSettings,
    Decoded,
    Decoder,
    Deleted,
    StateDelta,
    kinds_of,
    number_of,
    version_of,
)
from controller.state.knownnodes import NodeRevisions, Protections, Revision
from controller.state.pods import Pods, PodView
from controller.state.templates import ClaimTemplates, TemplatesOnDemand
from controller.state.times import NEVER, epoch_seconds
from controller.state.versions import Arrival, ObjectVersions, UndecodedObjects
from driver.device_facts import device_statuses
from driver.kube.api import (
    POD_DISRUPTION_BUDGETS,
    RESOURCE_CLAIM_TEMPLATES,
    Object,
    Resource,
)
from driver.kube.objects import object_key
from driver.kube.reflector import Delta, Missing, Restored, Synced, Unreadable
from driver.model import Allocation, Claim, Consumer
from driver.names import Names

_NO_SETTINGS: Final = DecisionSettings()


class State:
    """The state that decisions are made from. Only ``apply``, ``put``, ``drop`` and the methods of promises change it.

    Args:
        settings: what the operator has said.
        at: when an RFC 3339 time stamp of an object was, in the seconds of ``now``.
        now: the seconds that decisions are given; what is awaited since something was seen counts from these.

    Attributes:
        devices: pools of devices, and the use of each device.
        nodes: the nodes, with the pods that count on each.
        cluster: devices, nodes and quotas, for questions: what if?
        awaiting: the node of each pod that is to go there but is not bound, and has claims without an allocation.
        unbound: the node of each pod that counts there but is not bound, by pod.
        protections: the nodes that are kept from autoscalers.
        revisions: how often others have changed each node.
        gangs: the pods that belong together, and the terms on which they start.
        templates: the claims of pods that do not exist yet.
        on_demand: the templates whose names say what they ask for: who names them, and which were made for that.
        quotas: the limits of namespaces in memory and cores, and what is used of them.
        budgets: the PodDisruptionBudgets, if ``follow_budgets`` was called.
        kept_places: what is kept for pods that preempt others. Changed by ``keep_place`` and ``end_place`` only.
        unreadable: the objects that cannot be decoded.
    """

    def __init__(
        self,
        devices: Fleet,
        names: Names,
        settings: DecisionSettings = _NO_SETTINGS,
        at: Callable[[str], float] = epoch_seconds,
        now: Callable[[], float] = lambda: NEVER,
    ):
        self.at = at
        self.settings = settings
        self.devices = devices
        self.names = names
        self.nodes = Nodes()
        self.revisions = NodeRevisions()
        self.pods = Pods(names, now)
        self.claims = Claims()
        self.classes = DeviceClasses(devices)
        self.gangs = Gangs(self.claims, names)
        self.templates = ClaimTemplates()
        self.on_demand = TemplatesOnDemand(names)
        self.quotas = QuotaLedger(names, devices.ledger.published_device)
        self.budgets = Budgets()
        self.protections = Protections()
        self.cluster = Cluster(devices, self.nodes, self.quotas)
        self.kept_places = KeptPlaces(self.cluster)
        self.unreadable = UndecodedObjects()
        self._versions = ObjectVersions()
        self._device_kinds = DeviceKinds(names)
        self._touched: Touched | None = None
        indexes = Indexes(
            names=names,
            devices=devices,
            nodes=self.nodes,
            revisions=self.revisions,
            pods=self.pods,
            claims=self.claims,
            gangs=self.gangs,
            slices=SliceNodes(),
            kinds=self._device_kinds,
            quotas=self.quotas,
            classes=self.classes,
            protections=self.protections,
            templates=self.templates,
            on_demand=self.on_demand,
        )
        self._counter = PodCounter(indexes)
        self.awaiting: Mapping[str, str] = self._counter.awaiting
        self.unbound: Mapping[str, str] = self._counter.unbound
        self._claim_handler = ClaimHandler(indexes, self._counter)
        self._kinds = dict(kinds_of(indexes, self._counter, self._claim_handler, settings, self.condition_type))
        self._decoder = Decoder(self._kinds)

    def follow_budgets(self) -> Touched:
        """Have PodDisruptionBudgets watched, too; return what takes in all that changes from now on.

        Called before anything is watched.
        """
        self._kinds[POD_DISRUPTION_BUDGETS] = Followed(budget_from, BudgetHandler(self.budgets))
        self._touched = self._counter.touched = Touched()
        return self._touched

    def follow(self, kinds: Kinds) -> None:
        """Have the objects of further kinds watched, whose handlers a feature brings. Called as ``follow_budgets``."""
        self._kinds.update(kinds)

    @property
    def condition_type(self) -> str:
        """Type of our condition on pods."""
        return f"{self.names.driver}/Allocated"

    def servable_since(self, pod: PodView) -> float:
        """Return when the pod was created, or lost its last gate of others if that was seen (seconds)."""
        return max(self.at(pod.created), self.pods.openings.moment(pod))

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The kinds of objects that have to be watched."""
        return tuple(self._kinds)

    @property
    def complete(self) -> bool:
        """True if every kind has been listed, so that decisions may be made."""
        return self._versions.has_listed(self._kinds)

    # Changes of objects

    def decode(self, delta: Delta) -> StateDelta:
        """Return a report of a reflector as ``apply`` takes it in. Safe in any thread, at any time."""
        return self._decoder.delta(delta)

    def apply(self, delta: StateDelta) -> Changes:
        """Take in a report of a reflector."""
        changes = Changes()
        match delta:
            case Decoded():
                self._update(delta, changes, reported=True)
            case Deleted(resource, key, uid, version):
                if self._versions.remove(resource, key, uid, version):
                    self.unreadable.remove(resource, key)
                    self._kinds[resource].handler.on_delete(key, changes)
            case Synced(resource, keys, version):
                self.nodes.storage.unreadable.discard(resource.kind)
                self.templates.readable |= resource == RESOURCE_CLAIM_TEMPLATES
                self.budgets.readable |= resource == POD_DISRUPTION_BUDGETS
                for key in self._versions.list(resource, keys, int(version)):
                    self._delete(resource, key, changes)
            case Restored(resource):
                self._versions.restart(resource)
            case Missing(resource) | Unreadable(resource):
                if resource in VOLUME_RESOURCES:
                    self.nodes.storage.unreadable.add(resource.kind)
                self.templates.readable &= resource != RESOURCE_CLAIM_TEMPLATES
                self.budgets.readable &= resource != POD_DISRUPTION_BUDGETS
                self._versions.list(resource, (), 0)
                # A kind that is not served has no objects. One that may not be read keeps those that are known.
                for key in self._versions.known(resource) if isinstance(delta, Missing) else ():
                    self._delete(resource, key, changes)
        return self._noted(changes)

    def put(self, resource: Resource, obj: Object, listed: str = "") -> Changes:
        """Take in an object that was just read or written.

        Args:
            listed: the version of the list that it is in; "" if it was not listed.
        """
        changes, version, number = Changes(), version_of(obj["metadata"]), number_of(listed)
        # The deciding thread does not decode objects that a watch has delivered, such as every claim in a new term.
        if not self._versions.is_stale(resource, object_key(obj), version, reported=False, listed=number):
            self._update(self._decoder.object(resource, obj, number), changes, reported=False)
        return self._noted(changes)

    def drop(self, resource: Resource, key: str, uid: str = "") -> Changes:
        """Take in that an object (``namespace/name``, or ``name``) does not exist.

        Args:
            uid: of the object that was looked for, if it is known: another one of its name may have been made since.
        """
        changes = Changes()
        if not uid or self._versions.uid(resource, key) == uid:
            self._delete(resource, key, changes)
        return self._noted(changes)

    def _noted(self, changes: Changes) -> Changes:
        if self._touched is not None:
            self._touched.add(changes)
        return changes

    def _update(self, decoded: Decoded, changes: Changes, *, reported: bool) -> None:
        resource, key = decoded.resource, decoded.key
        arrival = self._versions.arrive(
            resource, key, decoded.uid, decoded.version, reported=reported, listed=decoded.listed
        )
        if arrival is Arrival.STALE:
            return
        handler, problem = self._kinds[resource].handler, decoded.problem
        if arrival is Arrival.REPLACED:
            handler.on_delete(key, changes)
        if decoded.value is not None:
            try:
                handler.on_update(decoded.value, changes)
            except Exception as error:  # noqa: BLE001 - as in the decoder
                problem = repr(error)
        if not problem:
            self.unreadable.remove(resource, key)
        elif found := self.unreadable.add(resource, key, decoded.uid, problem):
            changes.unreadable.append(found)

    def _delete(self, resource: Resource, key: str, changes: Changes) -> None:
        if self._versions.forget(resource, key):
            self.unreadable.remove(resource, key)
            self._kinds[resource].handler.on_delete(key, changes)

    # Decisions that are being written

    def promise(self, key: str, promise: Promise) -> Changes:
        """Count a promise to the claim ``key`` until ``end_promise`` is called: its devices are in use."""
        changes = Changes()
        self._claim_handler.promise(key, promise, changes)
        return self._noted(changes)

    def end_promise(self, key: str) -> Changes:
        """End the promise to the claim ``key``: from now on it is as the API has it."""
        changes = Changes()
        self._claim_handler.end_promise(key, changes)
        return self._noted(changes)

    def expect(self, nodes: Mapping[str, str]) -> Changes:
        """Count members of gangs that need no claim (keys) on nodes that were decided, until they lose their gate.

        Args:
            nodes: by pod; "" to count the pod there no longer.
        """
        changes = Changes()
        for pod, node in nodes.items():
            if node:
                self._counter.expected[pod] = node
            else:
                self._counter.expected.pop(pod, None)
            self._counter.recount(pod, changes)
        return changes

    def keep_place(self, place: KeptPlace) -> Changes:
        """Count the place as used until ``end_place``, in place of the one that its pod had."""
        changes = Changes()
        self._discount(self.kept_places.for_pod(place.pod), changes)
        self.kept_places.keep(place)
        self._counter.kept[place.pod] = place.node
        self._counter.recount(place.pod, changes)
        return changes

    def end_place(self, pod: str) -> Changes:
        """Count the place of the pod (key) no longer."""
        changes, place = Changes(), self.kept_places.end(pod)
        self._discount(place, changes)
        if place is not None:
            self.nodes.mark_changed(place.node)
            changes.favour(place.node)
            namespace = pod.partition("/")[0]
            if place.allocations and self.quotas.limits(namespace):
                changes.quotas[namespace] = None
        return changes

    def _discount(self, place: KeptPlace | None, changes: Changes) -> None:
        if place is not None:
            self._counter.kept.pop(place.pod, None)
            self._counter.recount(place.pod, changes)

    def end_promises(self) -> None:
        """End all promises: from now on every claim is as the API has it, and no place is kept."""
        for pod in tuple(self.kept_places.pods):
            self.end_place(pod)
        self.expect(dict.fromkeys(tuple(self._counter.expected), ""))
        for key in self.claims.promised:
            self.end_promise(key)

    # Questions

    def revision_of(self, node: str, needs: Needs) -> Revision:
        """Return a revision of the node for the pod; it differs once others change the node or the pod's volumes."""
        return self.revisions.revision_of(node), volume_facts(needs, self.nodes, node)

    def uid_of(self, resource: Resource, key: str) -> str:
        """Return the uid of the object ``key`` that is known; "" if none is."""
        return self._versions.uid(resource, key)

    def version_of(self, resource: Resource, key: str) -> str:
        """Return the resourceVersion of the object ``key`` that is known; "" if none is."""
        return self._versions.version(resource, key)

    def consumer(self, pod: PodView, claim: str) -> Consumer:
        """Return the consumer of the claim (``namespace/name``) when the pod uses it: the pod, or its PodGroup."""
        return consumer_of(pod, claim, self.gangs.objects)

    def device_statuses(self, allocation: Allocation) -> tuple[Object, ...]:
        """Return the entries of ``status.devices`` for an allocation of devices as they are published now."""
        return device_statuses(allocation, self.names, self.devices.ledger.published_device)

    def holds_ours(self, claim: Claim) -> bool:
        """Return whether the claim's allocation contains a device of a driver that we allocate, whoever made it."""
        return holds_devices_of(claim, self.names.allocated_drivers)

    def devices_in_use(self) -> dict[str, str]:
        """Return ``pool/device/shareID`` of every device of ours in use, with the key of the claim that holds it.

        A holder that no known claim confirms appears by its uid, without shareID.
        """
        driver, snapshot = self.names.driver, self.devices.ledger.usage_snapshot()
        held = {(device, uid) for device, use in snapshot.items() if device.driver == driver for uid in use.holders}
        unconfirmed, devices = set(held), {}
        for record in self.claims.values():
            for result in record.claim.allocation.results if record.claim.allocation else ():
                holding = (result.device, record.claim.uid)
                if holding in held or (result.admin_access and result.device.driver == driver):
                    devices[f"{result.device.pool}/{result.device.device}/{result.share_id}"] = record.claim.key
                    unconfirmed.discard(holding)
        return devices | {f"{device.pool}/{device.device}/": uid for device, uid in unconfirmed}

    def allocated_by_kind(self) -> Mapping[str, int]:
        """Return the number of allocations of our devices, by the devices' ``kind``."""
        allocations = (record.claim.allocation for record in self.claims.values())
        return self._device_kinds.count(
            result.device for allocation in allocations if allocation for result in allocation.results
        )
