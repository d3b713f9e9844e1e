"""What the controller knows of the cluster, indexed, and kept up to date change by change.

Nothing here is the truth: it is what the API said last, plus what was written and has not come back yet. An older
version of an object never replaces a newer one (resource versions of one kind are ordered integers, KEP-5504), so a
watch that lags behind our own writes cannot make a device look free again.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from controller.allocation import Fleet
from controller.kinds import Kinds
from controller.placement import NodeView, facts_of, in_order
from controller.pods import PodView, pod_from
from controller.records import Changes, ClaimRecord, ClassRecord, Refusals
from driver.errors import LodeError
from driver.kube.api import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Object,
    Resource,
)
from driver.kube.reflector import Delta, Removed, Synced, Upserted
from driver.model import Allocation, Claim
from driver.names import Names
from driver.wire import claim_from, class_from, slice_from, taint_rule_from

DEVICE_TAINT_RULES_BETA = Resource(
    "resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", namespaced=False
)
"""Where Kubernetes 1.36 serves device taint rules, if at all."""
OPTIONAL_KINDS = (DEVICE_TAINT_RULES, DEVICE_TAINT_RULES_BETA)
"""Kinds that a cluster need not serve."""


_SHAPES = 64
"""Shapes of pods for which refusals are remembered; the oldest are forgotten first."""


class State:
    """Everything known, and indexes; changed by ``apply``, ``put``, ``drop`` and assumptions alone."""

    def __init__(self, devices: Fleet, names: Names):
        self.devices = devices
        self.names = names
        self.pods: dict[str, PodView] = {}
        self.claims: dict[str, ClaimRecord] = {}
        self.classes: dict[str, ClassRecord] = {}
        self.nodes: dict[str, NodeView] = {}
        """Also nodes that only pods name; those have no facts."""
        self.backed: frozenset[str] = frozenset()
        """Extended resources that device classes stand for."""
        self.version = 0
        """Grows with changes that can change the answer for every node."""
        self.epoch = 0
        """Grows with changes that can change the answer for any node."""
        self.synced: set[Resource] = set()
        """Kinds of which a complete list has arrived."""
        self._versions: dict[Resource, dict[str, tuple[str, str]]] = {}
        self._pods_by_claim: dict[str, dict[str, None]] = {}
        self._counted_on: dict[str, str] = {}
        self._slice_nodes: dict[str, str] = {}
        self._roaming: set[str] = set()
        self._kinds = Kinds(names)
        self._order: list[str] | None = None
        self._refusals: dict[Hashable, Refusals] = {}
        self._blocked: dict[Hashable, int] = {}
        self._put: dict[Resource, Callable[[Object, Changes], None]] = {
            PODS: self._put_pod,
            NODES: self._put_node,
            RESOURCE_CLAIMS: self._put_claim,
            RESOURCE_SLICES: self._put_slice,
            DEVICE_CLASSES: self._put_class,
            DEVICE_TAINT_RULES: self._put_rule,
            DEVICE_TAINT_RULES_BETA: self._put_rule,
        }
        self._drop: dict[Resource, Callable[[str, Changes], None]] = {
            PODS: self._drop_pod,
            NODES: self._drop_node,
            RESOURCE_CLAIMS: self._drop_claim,
            RESOURCE_SLICES: self._drop_slice,
            DEVICE_CLASSES: self._drop_class,
            DEVICE_TAINT_RULES: self._drop_rule,
            DEVICE_TAINT_RULES_BETA: self._drop_rule,
        }

    @property
    def condition_type(self) -> str:
        """The type of our condition on pods."""
        return f"{self.names.driver}/Allocated"

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """The kinds of objects that have to be watched."""
        return tuple(self._put)

    @property
    def complete(self) -> bool:
        """Whether every kind has been listed, so that decisions may be made."""
        return self.synced == set(self._put)

    # Feeding

    def apply(self, delta: Delta) -> Changes:
        """Take in what a reflector reports."""
        changes = Changes()
        match delta:
            case Upserted(resource, obj):
                self._take(resource, obj, changes)
            case Removed(resource, obj):
                self._lose(resource, obj, changes)
            case Synced(resource, objects):
                listed = {_key(obj) for obj in objects}
                for key in [key for key in self._versions.get(resource, {}) if key not in listed]:
                    self._forget_object(resource, key, changes)
                for obj in sorted(objects, key=lambda obj: str(obj["metadata"].get("creationTimestamp") or "")):
                    self._take(resource, obj, changes)
                self.synced.add(resource)
        return changes

    def put(self, resource: Resource, obj: Object) -> Changes:
        """Take in an object just read or written."""
        changes = Changes()
        self._take(resource, obj, changes)
        return changes

    def drop(self, resource: Resource, key: str) -> Changes:
        """Take in that an object (``namespace/name``, or ``name``) does not exist."""
        changes = Changes()
        self._forget_object(resource, key, changes)
        return changes

    def _take(self, resource: Resource, obj: Object, changes: Changes) -> None:
        key, metadata = _key(obj), obj["metadata"]
        uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        known = self._versions.setdefault(resource, {}).get(key)
        if known is not None and _number(version) <= _number(known[1]):
            return
        if known is not None and known[0] != uid:
            self._forget_object(resource, key, changes)
        self._versions[resource][key] = (uid, version)
        try:
            self._put[resource](obj, changes)
        except (LodeError, AttributeError, KeyError, TypeError, ValueError) as error:
            # One object that cannot be read must not keep the others from being served.
            changes.unreadable.append(f"{resource.kind} {key}: {error!r}")

    def _lose(self, resource: Resource, obj: Object, changes: Changes) -> None:
        key, metadata = _key(obj), obj["metadata"]
        known = self._versions.get(resource, {}).get(key)
        if known is None:
            return
        if known[0] == metadata.get("uid", "") or _number(known[1]) <= _number(metadata.get("resourceVersion", "")):
            self._forget_object(resource, key, changes)

    def _forget_object(self, resource: Resource, key: str, changes: Changes) -> None:
        if self._versions.get(resource, {}).pop(key, None) is not None:
            self._drop[resource](key, changes)

    # Assumptions

    def assume(self, key: str, allocation: Allocation) -> None:
        """Count devices as in use by the claim before the API has said so."""
        self.devices.assume(self.claims[key].claim.uid, allocation)
        self._touch(allocation)

    def forget(self, key: str, allocation: Allocation) -> None:
        """Take the assumption back."""
        if record := self.claims.get(key):
            self.devices.forget(record.claim.uid)
        self._touch(allocation)

    # Asking

    def pods_of(self, claim_key: str) -> Sequence[str]:
        """Keys of the pods that refer to the claim."""
        return tuple(self._pods_by_claim.get(claim_key, ()))

    def node_order(self) -> Sequence[str]:
        """Names of the existing nodes in the order to try them."""
        if self._order is None:
            self._order = in_order(name for name, node in self.nodes.items() if node.facts is not None)
        return self._order

    def holds_ours(self, claim: Claim) -> bool:
        """Whether the claim's allocation contains a device of our driver."""
        results = claim.allocation.results if claim.allocation else ()
        return any(result.device.driver == self.names.driver for result in results)

    def node(self, name: str) -> NodeView:
        """The node as far as it is known; without facts if it does not exist."""
        return self._node(name)

    def labels_of(self, name: str) -> Mapping[str, str]:
        """The node's labels; none if it does not exist."""
        facts = self._node(name).facts
        return facts.labels if facts else {}

    def refusals(self, shape: Hashable) -> Refusals:
        """The nodes that refused a pod of this shape before, to look up and to add to."""
        if shape not in self._refusals and len(self._refusals) >= _SHAPES:
            del self._refusals[next(iter(self._refusals))]
        return self._refusals.setdefault(shape, {})

    def blocked(self, shape: Hashable) -> bool:
        """Whether every node refused a pod of this shape and nothing has changed anywhere since."""
        return self._blocked.get(shape) == self.epoch

    def block(self, shape: Hashable) -> None:
        """Remember that every node refused a pod of this shape."""
        if len(self._blocked) >= _SHAPES:
            self._blocked.clear()
        self._blocked[shape] = self.epoch

    def allocated_by_kind(self) -> Mapping[str, int]:
        """How many allocations of our devices there are, by the devices' ``kind``."""
        allocations = (record.claim.allocation for record in self.claims.values())
        return self._kinds.count(result.device for one in allocations if one for result in one.results)

    # Pods

    def _put_pod(self, obj: Object, changes: Changes) -> None:
        pod = pod_from(obj, self.condition_type)
        before = self.pods.get(pod.key)
        self.pods[pod.key] = pod
        if before is None or before.claim_keys != pod.claim_keys:
            self._index(pod.key, before.claim_keys if before else (), pod.claim_keys)
        if pod.gates or pod.references:
            changes.pods[pod.key] = None
        if pod.terminal:
            changes.claims.update(dict.fromkeys(pod.claim_keys))
        self._count(pod.key, changes)

    def _drop_pod(self, key: str, changes: Changes) -> None:
        pod = self.pods.pop(key, None)
        if pod is None:
            return
        self._index(key, pod.claim_keys, ())
        changes.pods[key] = None
        changes.claims.update(dict.fromkeys(pod.claim_keys))
        self._count(key, changes)

    def _index(self, pod: str, before: Iterable[str], after: Iterable[str]) -> None:
        for claim in before:
            users = self._pods_by_claim.get(claim, {})
            users.pop(pod, None)
            if not users:
                self._pods_by_claim.pop(claim, None)
        for claim in after:
            self._pods_by_claim.setdefault(claim, {})[pod] = None

    def _count(self, key: str, changes: Changes) -> None:
        """Count the pod on the node it is bound or promised to, and nowhere else."""
        pod = self.pods.get(key)
        here = "" if pod is None or pod.terminal else pod.node_name or self._promised(pod)
        there = self._counted_on.get(key, "")
        if there and there != here:
            changes.freed |= self.nodes[there].remove(key)
            del self._counted_on[key]
            self.epoch += 1
        if here and pod is not None:
            self.epoch += self._node(here).add(key, pod.needs)
            self._counted_on[key] = here

    def _promised(self, pod: PodView) -> str:
        for key in pod.claim_keys:
            record = self.claims.get(key)
            if record is None or record.claim.allocation is None:
                continue
            reserved = any(consumer.uid == pod.uid for consumer in record.claim.reserved_for)
            if reserved and self.holds_ours(record.claim):
                return record.claim.allocation.node_name
        return ""

    # Nodes

    def _node(self, name: str) -> NodeView:
        return self.nodes.setdefault(name, NodeView(name))

    def _put_node(self, obj: Object, changes: Changes) -> None:
        facts = facts_of(obj)
        node = self._node(facts.name)
        if node.facts == facts:
            return
        if node.facts is None:
            self._order = None
        node.facts = facts
        self.devices.upsert_node(facts.name, facts.labels)
        self._bump(facts.name)
        changes.freed = True

    def _drop_node(self, key: str, changes: Changes) -> None:
        if node := self.nodes.get(key):
            node.facts = None
            self.devices.remove_node(key)
            self._bump(key)
            self._order = None
            changes.freed |= node.pods > 0

    # Claims

    def _put_claim(self, obj: Object, changes: Changes) -> None:
        claim = claim_from(obj)
        before = self.claims.get(claim.key)
        shape = before.shape if before else json.dumps(obj["spec"], sort_keys=True)
        self.claims[claim.key] = ClaimRecord(obj, claim, shape)
        self.devices.upsert_claim(claim)
        self._claim_changed(before.claim if before else None, claim, changes)
        changes.claims[claim.key] = None

    def _drop_claim(self, key: str, changes: Changes) -> None:
        if before := self.claims.pop(key, None):
            self.devices.remove_claim(before.claim.uid)
            self._claim_changed(before.claim, None, changes)

    def _claim_changed(self, before: Claim | None, after: Claim | None, changes: Changes) -> None:
        held, holds = before.allocation if before else None, after.allocation if after else None
        if held != holds:
            for allocation in (held, holds):
                if allocation is not None:
                    self._touch(allocation)
            changes.freed |= held is not None
        claim = after or before
        assert claim is not None
        for pod in self.pods_of(claim.key):
            changes.pods[pod] = None
            self._count(pod, changes)

    def _touch(self, allocation: Allocation) -> None:
        # Devices that several nodes reach change the answer for all of them.
        self._bump("" if self._roaming else allocation.node_name)

    def _bump(self, node: str) -> None:
        """The answer for ``node`` may have changed; for every node if it is ""."""
        self.epoch += 1
        if node:
            self._node(node).version += 1
        else:
            self.version += 1

    # Slices, classes, taint rules

    def _put_slice(self, obj: Object, changes: Changes) -> None:
        part = slice_from(obj)
        self.devices.upsert_slice(part)
        self._slice_changed(part.name, part.scope.node_name, changes)
        self._kinds.put(part)
        if part.driver == self.names.driver and not part.scope.node_name:
            self._roaming.add(part.name)

    def _drop_slice(self, key: str, changes: Changes) -> None:
        self.devices.remove_slice(key)
        self._roaming.discard(key)
        self._slice_changed(key, None, changes)
        self._kinds.drop(key)

    def _slice_changed(self, name: str, node: str | None, changes: Changes) -> None:
        before = self._slice_nodes.pop(name, None)
        for of_node in {before, node} - {None}:
            self._bump(of_node or "")
        if node is not None:
            self._slice_nodes[name] = node
        changes.freed = True

    def _put_class(self, obj: Object, changes: Changes) -> None:
        value = class_from(obj)
        driver = self.names.driver
        ours = any(f'"{driver}"' in selector or f"'{driver}'" in selector for selector in value.selectors)
        extended = (obj.get("spec") or {}).get("extendedResourceName") or ""
        self.classes[value.name] = ClassRecord(value, ours, extended)
        self.devices.upsert_class(value)
        self._classes_changed(changes)

    def _drop_class(self, key: str, changes: Changes) -> None:
        if self.classes.pop(key, None) is not None:
            self.devices.remove_class(key)
            self._classes_changed(changes)

    def _classes_changed(self, changes: Changes) -> None:
        self.backed = frozenset(record.extended_resource for record in self.classes.values()) - {""}
        self._bump("")
        changes.freed = True

    def _put_rule(self, obj: Object, changes: Changes) -> None:
        self.devices.upsert_taint_rule(taint_rule_from(obj))
        self._bump("")
        changes.freed = True

    def _drop_rule(self, key: str, changes: Changes) -> None:
        self.devices.remove_taint_rule(key)
        self._bump("")
        changes.freed = True


def _key(obj: Object) -> str:
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or ""
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else 0
