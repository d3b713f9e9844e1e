"""Updates the indexes when an object is added, updated or deleted: one handler per kind. Pure.

Pods at our gate whose claims are allocated already wait for nothing but these devices, so they are looked at again when
slices or taint rules change.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from controller.allocation import Fleet
from controller.membership import Group, JobSet, Workload
from controller.placement import Needs, Nodes
from controller.quotas import Quota, QuotaLedger
from controller.state.changes import Changes, Touched
from controller.state.claims import ClaimRecord, Claims, Promise, consumer_of, holds_devices_of
from controller.state.devices import ClassRecord, DeviceClasses, DeviceKinds, SliceNodes
from controller.state.gangs import Gangs
from controller.state.knownnodes import NodeRevisions, PodsWithVolumes, Protections
from controller.state.pods import Pods, PodView
from controller.state.templates import ClaimTemplates, DecodedTemplate, TemplatesOnDemand
from driver.kube.api import Resource
from driver.model import Claim, Slice, TaintRule
from driver.names import Names


@dataclass(frozen=True, slots=True)
class Indexes:
    """The indexes that an object of one kind changes together."""

    names: Names
    devices: Fleet
    nodes: Nodes
    revisions: NodeRevisions
    pods: Pods
    claims: Claims
    gangs: Gangs
    slices: SliceNodes
    kinds: DeviceKinds
    quotas: QuotaLedger
    classes: DeviceClasses
    protections: Protections
    templates: ClaimTemplates
    on_demand: TemplatesOnDemand


class PodCounter:
    """Counts each pod on the node that it is bound to, or on which its devices are allocated, and nowhere else."""

    def __init__(self, indexes: Indexes):
        self._pods = indexes.pods
        self._claims = indexes.claims
        self._nodes = indexes.nodes
        self._gangs = indexes.gangs
        self._names = indexes.names
        self.awaiting: dict[str, str] = {}
        """See ``State.awaiting``."""
        self.unbound: dict[str, str] = {}
        """See ``State.unbound``."""
        self.expected: dict[str, str] = {}
        """See ``State.expect``."""
        self.kept: dict[str, str] = {}
        """The nodes where places are kept for pods, by pod."""
        self.touched: Touched | None = None
        """Takes in what has changed, if somebody wants to know."""

    def recount(self, key: str, changes: Changes) -> None:
        """Take in that the pod, or one of its claims, has changed."""
        if self.touched is not None:
            self.touched.pods[key] = None
        pod, before, clock = self._pods.get(key), self._nodes.node_of(key), self._nodes.pods.clock
        node = (
            ""
            if pod is None or pod.terminal
            else pod.node_name or self._promised_node(pod) or self._expected_node(pod) or self.kept.get(key, "")
        )
        if pod is not None and node and not pod.node_name:
            self.unbound[key] = node
            awaits = self._awaits_allocation(pod)
        else:
            self.unbound.pop(key, None)
            awaits = False
        if awaits:
            self.awaiting[key] = node
        elif self.awaiting.pop(key, None) and pod is not None:
            self.tell_sharers(pod, changes)
        if self._nodes.count(key, pod.needs, node) if pod is not None and node else self._nodes.discount(key):
            changes.favour(before)
        changes.terms |= self._nodes.pods.clock != clock

    def tell_sharers(self, pod: PodView, changes: Changes) -> None:
        """Take in that kube-scheduler is to allocate nothing for the pod any more: others that share its claims may
        have been decided about as if it was."""
        for claim in pod.claim_keys:
            record = self._claims.get(claim)
            if record is not None and record.claim.allocation is None:
                changes.pods.update(dict.fromkeys(self._pods.using(claim)))

    def _awaits_allocation(self, pod: PodView) -> bool:
        records = (self._claims.get(key) for key in pod.claim_keys)
        return any(record is not None and record.claim.allocation is None for record in records)

    def _promised_node(self, pod: PodView) -> str:
        """Return the node of the pod's first claim that holds our devices and may be its own; "" if there is none."""
        for key in pod.claim_keys:
            record = self._claims.get(key)
            if record is None or record.claim.allocation is None:
                continue
            if record.claim.deleting:
                # kube-scheduler binds no pod with such a claim.
                return ""
            if self._is_reserved(record.claim, pod) and holds_devices_of(record.claim, self._names.allocated_drivers):
                return record.claim.allocation.node_name
        return ""

    def _expected_node(self, pod: PodView) -> str:
        """Return the expected node of a gang member without claims: only the nomination names it until it is bound."""
        if pod.references or pod.deleting or not self._gangs.gang_of(pod.key):
            return ""
        return self.expected.get(pod.key, "") if self._names.gate in pod.gates else pod.nominated

    def _is_reserved(self, claim: Claim, pod: PodView) -> bool:
        """Return whether the claim is reserved for the pod, or may be at any time, as long as it is allocated.

        kube-scheduler reserves a claim that nobody uses for a pod without gates, and binds it.

        With a PodGroup, the claim does not say which pods have a place. All members of a gang get one together; other
        pods have one when they have lost the gate.
        """
        if not claim.reserved_for and not pod.gates and not pod.deleting:
            return True
        own = consumer_of(pod, claim.key, self._gangs.objects)
        if all(consumer.uid != own.uid for consumer in claim.reserved_for):
            return False
        return own.uid == pod.uid or self._names.gate not in pod.gates or bool(self._gangs.gang_of(pod.key))


class PodHandler:
    """Pods: their index by claim, and the node they count on."""

    def __init__(self, indexes: Indexes, counter: PodCounter, volumes: PodsWithVolumes):
        self._pods = indexes.pods
        self._gangs = indexes.gangs
        self._revisions = indexes.revisions
        self._on_demand = indexes.on_demand
        self._counter = counter
        self._volumes = volumes

    def on_update(self, pod: PodView, changes: Changes) -> None:
        """See ``Handler``. A pod that has ended is kept no longer than one that was deleted."""
        if pod.terminal:
            self.on_delete(pod.key, changes)
            if pod.succeeded:
                self._gangs.succeed(pod, changes)
            return
        before = self._pods.get(pod.key)
        self._revise(before, pod)
        if pod.node_name and pod.started and (before is None or _limit(before) != _limit(pod)):
            changes.ends[pod.node_name] = None
        if pod.node_name and (before is None or not before.node_name):
            changes.bound[pod.node_name] = None
        self._pods.upsert(pod)
        self._volumes.upsert(pod)
        self._on_demand.put_pod(pod, changes)
        self._gangs.upsert(pod, changes)
        if (pod.gates or pod.references) and not _is_only_told(before, pod):
            changes.pods[pod.key] = None
            self._note_gang(pod.key, changes)
        self._counter.recount(pod.key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        pod = self._pods.remove(key)
        self._volumes.remove(key)
        self._on_demand.remove_pod(key, changes)
        self._gangs.remove(key, changes)
        if pod is not None:
            changes.pods[key] = None
            changes.claims.update(dict.fromkeys(pod.claim_keys))
            self._revise(pod, None)
            if key in self._counter.awaiting:
                self._counter.tell_sharers(pod, changes)
            self._counter.recount(key, changes)

    def _note_gang(self, key: str, changes: Changes) -> None:
        if gang := self._gangs.gang_of(key):
            changes.gangs[gang] = None

    def _revise(self, before: PodView | None, after: PodView | None) -> None:
        """Count a pod that was bound, has ended or has changed on its node as a change of the node."""
        was, now = _running(before), _running(after)
        if was != now:
            for node in {seen[0] for seen in (was, now) if seen}:
                self._revisions.advance(node)


def _is_only_told(before: PodView | None, after: PodView) -> bool:
    """Return whether a pod with gates differs only in our words about it. They change no decision."""
    if before is None or not after.gates or after.allocated is None:
        return False
    return replace(before, allocated=after.allocated, wishes_node=after.wishes_node) == after


def _limit(pod: PodView) -> tuple[str, int | None]:
    return pod.started, pod.limit_seconds


def _running(pod: PodView | None) -> tuple[str, Needs] | None:
    """Return the node of a pod that runs, and its needs there."""
    return (pod.node_name, pod.needs) if pod is not None and pod.node_name and not pod.terminal else None


class ClaimHandler:
    """Claims: their devices are in use, and their pods count on the node of the allocation."""

    def __init__(self, indexes: Indexes, counter: PodCounter):
        self._claims = indexes.claims
        self._pods = indexes.pods
        self._gangs = indexes.gangs
        self._nodes = indexes.nodes
        self._revisions = indexes.revisions
        self._slices = indexes.slices
        self._ledger = indexes.devices.ledger
        self._drivers = indexes.names.allocated_drivers
        self._quotas = indexes.quotas
        self._counter = counter

    def on_update(self, record: ClaimRecord, changes: Changes) -> None:
        """See ``Handler``."""
        self._pods.openings.exists(record.created)
        self._changed(*self._claims.upsert(record), changes)

    def promise(self, key: str, promise: Promise, changes: Changes) -> None:
        """Count a promise to the claim ``key``."""
        if claims := self._claims.promise(key, promise):
            self._changed(*claims, changes)

    def end_promise(self, key: str, changes: Changes) -> None:
        """End a promise to the claim ``key``, which is written or never will be."""
        if claims := self._claims.end_promise(key):
            self._changed(*claims, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        if claim := self._claims.remove(key):
            changes.claims[key] = None
            self._ledger.remove_claim(claim.uid)
            self._mark_nodes(claim, None, changes)
            self._count(claim, None, changes)
            self._recount_pods(key, changes)

    def _changed(self, before: Claim | None, claim: Claim, changes: Changes) -> None:
        self._ledger.upsert_claim(claim)
        self._mark_nodes(before, claim, changes)
        self._count(before, claim, changes)
        self._recount_pods(claim.key, changes)
        changes.claims[claim.key] = None

    def _mark_nodes(self, before: Claim | None, after: Claim | None, changes: Changes) -> None:
        old, new = before.allocation if before else None, after.allocation if after else None
        if old == new:
            return
        for claim in (before, after):
            if claim is None or claim.allocation is None:
                continue
            node = self._slices.affected_by(claim.allocation)
            self._nodes.mark_changed(node)
            if not holds_devices_of(claim, self._drivers):
                self._revisions.advance(node)
            if claim is before:
                changes.favour(node)

    def _count(self, before: Claim | None, after: Claim | None, changes: Changes) -> None:
        """Count what the claim takes of the quotas of its namespace. Less than before makes room for others."""
        old, new = before.allocation if before else None, after.allocation if after else None
        claim = after or before
        if old is new or claim is None or not self._quotas.count(claim.key, new):
            return
        changes.quota_uses[claim.namespace] = None
        if old is not None:
            changes.quotas[claim.namespace] = None

    def _recount_pods(self, claim: str, changes: Changes) -> None:
        pods = self._pods.using(claim)
        self._gangs.recheck(pods, changes)
        for pod in pods:
            changes.pods[pod] = None
            if gang := self._gangs.gang_of(pod):
                changes.gangs[gang] = None
            self._counter.recount(pod, changes)


class ClassHandler:
    """Device classes, and the extended resources that they stand for."""

    def __init__(self, indexes: Indexes):
        self._classes = indexes.classes
        self._nodes = indexes.nodes
        self._devices = indexes.devices

    def on_update(self, record: ClassRecord, changes: Changes) -> None:
        """See ``Handler``."""
        self._classes.upsert(record)
        self._devices.upsert_class(record.value)
        self._mark_nodes(changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        if self._classes.remove(key):
            self._devices.remove_class(key)
            self._mark_nodes(changes)

    def _mark_nodes(self, changes: Changes) -> None:
        self._nodes.extended_resources = self._classes.extended_resources
        self._nodes.mark_changed("")
        changes.favour("")


class QuotaHandler:
    """Quotas of namespaces in memory and cores of cards."""

    def __init__(self, indexes: Indexes):
        self._quotas = indexes.quotas
        self._claims = indexes.claims

    def on_update(self, quota: Quota, changes: Changes) -> None:
        """See ``Handler``."""
        changes.quota_uses[quota.namespace] = None
        if self._quotas.upsert(quota, (record.claim for record in self._claims.values())):
            changes.quotas[quota.namespace] = None
            if quota.faults:
                changes.invalid_quotas.append(quota)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        if self._quotas.remove(key):
            changes.quotas[key.partition("/")[0]] = None


class SliceHandler:
    """Resource slices: the devices that are published. Claims that hold some of them may hold too much now, or devices
    that are there no longer."""

    def __init__(self, indexes: Indexes):
        self._indexes = indexes
        self._pools: dict[str, tuple[str, str]] = {}
        """Driver and pool of each slice."""

    def on_update(self, part: Slice, changes: Changes) -> None:
        """See ``Handler``."""
        indexes = self._indexes
        indexes.devices.ledger.upsert_slice(part)
        self._pools[part.name] = part.driver, part.pool
        self._note_holders(indexes.claims.holding(part.driver, part.pool), changes)
        indexes.kinds.upsert(part)
        self._mark_nodes(indexes.slices.upsert(part), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        indexes = self._indexes
        indexes.devices.ledger.remove_slice(key)
        if pool := self._pools.pop(key, None):
            self._note_holders(indexes.claims.holding(*pool), changes)
        indexes.kinds.remove(key)
        self._mark_nodes(indexes.slices.remove(key), changes)

    def _note_holders(self, claims: Collection[str], changes: Changes) -> None:
        changes.claims.update(dict.fromkeys(claims))
        namespaces = dict.fromkeys(self._indexes.quotas.published(claims))
        changes.quotas.update(namespaces)
        changes.quota_uses.update(namespaces)
        _note_gated_users(self._indexes, claims, changes)

    def _mark_nodes(self, names: set[str], changes: Changes) -> None:
        for name in sorted(names):
            self._indexes.nodes.mark_changed(name)
            self._indexes.revisions.advance(name)
            changes.favour(name)


class TaintRuleHandler:
    """Device taint rules, in one version of their API. A rule that is served in two versions counts in each, so that it
    goes on counting when one of them is served no longer.
    """

    def __init__(self, indexes: Indexes, version: str):
        self._indexes = indexes
        self._version = version
        self._rules: dict[str, TaintRule] = {}

    def on_update(self, rule: TaintRule, changes: Changes) -> None:
        """See ``Handler``."""
        before, self._rules[rule.name] = self._rules.get(rule.name), rule
        self._indexes.devices.ledger.upsert_taint_rule(replace(rule, name=self._name(rule.name)))
        self._changed([rule] if before is None else [before, rule], changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        before = self._rules.pop(key, None)
        self._indexes.devices.ledger.remove_taint_rule(self._name(key))
        self._changed([] if before is None else [before], changes)

    def _changed(self, rules: Iterable[TaintRule], changes: Changes) -> None:
        claims = self._indexes.claims
        for rule in (rule for rule in rules if rule.selects):
            for driver, pool in claims.pools:
                if rule.driver in ("", driver) and rule.pool in ("", pool):
                    _note_gated_users(self._indexes, claims.holding(driver, pool), changes)
        self._indexes.nodes.mark_changed("")
        changes.favour("")

    def _name(self, rule: str) -> str:
        return f"{self._version}/{rule}"


def _note_gated_users(indexes: Indexes, claims: Iterable[str], changes: Changes) -> None:
    """Note the pods at our gate that use one of these claims: what keeps them from its devices may have changed."""
    for claim in claims:
        for pod in indexes.pods.using(claim):
            if indexes.names.gate in indexes.pods[pod].gates:
                changes.pods[pod] = None
                if gang := indexes.gangs.gang_of(pod):
                    changes.gangs[gang] = None


class GroupHandler:
    """Objects that stand for a gang, in one version of their API."""

    def __init__(self, gangs: Gangs, counter: PodCounter, kind: Resource):
        self._gangs = gangs
        self._counter = counter
        self._kind = kind

    def on_update(self, group: Group, changes: Changes) -> None:
        """See ``Handler``."""
        self._changed(self._gangs.objects.put_group(self._kind, group), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._changed(self._gangs.objects.remove_group(self._kind, key), changes)

    def _changed(self, groups: Collection[str], changes: Changes) -> None:
        """Look again at the pods of groups: they may be in another gang now, and use other claims in its name."""
        self._gangs.depend_on(groups, changes)
        for pod in (pod for group in sorted(groups) for pod in self._gangs.dependents(group)):
            changes.pods[pod] = None
            self._counter.recount(pod, changes)


class WorkloadHandler:
    """Jobs or StatefulSets, which say how many pods there will be."""

    def __init__(self, gangs: Gangs, kind: str):
        self._gangs = gangs
        self._kind = kind

    def on_update(self, made: tuple[str, Workload], changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.put_workload(self._kind, *made), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.remove_workload(self._kind, key), changes)


class JobSetHandler:
    """JobSets, which say how many pods there will be, and what those ask for that come later."""

    def __init__(self, gangs: Gangs):
        self._gangs = gangs

    def on_update(self, job_set: JobSet, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.job_sets.add(job_set), changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._gangs.depend_on(self._gangs.objects.job_sets.remove(key), changes)


class TemplateHandler:
    """ResourceClaimTemplates, which say what members of gangs ask for that come later; some are made on demand."""

    def __init__(self, templates: ClaimTemplates, on_demand: TemplatesOnDemand, gangs: Gangs):
        self._templates = templates
        self._on_demand = on_demand
        self._gangs = gangs

    def on_update(self, template: DecodedTemplate, changes: Changes) -> None:
        """See ``Handler``."""
        key = template.claim.claim.key
        self._on_demand.put_template(key, template.made, changes)
        if self._templates.upsert(template.claim):
            self._changed(key, changes)

    def on_delete(self, key: str, changes: Changes) -> None:
        """See ``Handler``."""
        self._on_demand.remove_template(key, changes)
        if self._templates.remove(key):
            self._changed(key, changes)

    def _changed(self, key: str, changes: Changes) -> None:
        namespace = key.partition("/")[0]
        self._gangs.change_runs(self._gangs.objects.job_sets.in_order(namespace), changes)
