"""Checks nodes for the volumes of a pod (kube-scheduler's plugins VolumeBinding, VolumeZone, VolumeRestrictions and
NodeVolumeLimits). Pure."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import merge

from controller.placement.needs import Needs, VolumeUse
from controller.placement.nodes import Nodes, Reasons
from controller.placement.storage import ZONE_LABELS, Storage, StorageClass, Volume, VolumeClaim
from driver.node_selectors import holds, selects

_STABLE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_NO_PROVISIONER = "kubernetes.io/no-provisioner"


def volume_check(pod: str, needs: Needs, nodes: Nodes) -> Reasons | None:
    """Prepare a check of nodes for the pod's volumes; None if it has no claims for volumes, or if they may not be read.

    Valid until pods, nodes or volumes change. The pod itself does not count if it counts on a node already.
    """
    storage = nodes.storage
    if not needs.volumes or storage.unreadable:
        return None
    everywhere = tuple(_faults(needs, storage, nodes, nodes.node_of(pod)))
    if everywhere:
        return lambda _name, _labels: everywhere
    uses = [(use, storage.claims[use.claim]) for use in needs.volumes]
    bound = [(use, volume) for use, claim in uses if claim.bound and (volume := storage.volume(claim.volume))]
    # kube-scheduler looks at zones only of claims that the pod names.
    zoned = [volume for use, volume in bound if volume.zones and not use.owner]
    unbound = _Unbound([claim for _, claim in uses if not claim.bound], storage)
    new = dict(found for _, claim in uses if (found := _attachment(claim, storage)) is not None)

    def reasons(name: str, labels: Mapping[str, str]) -> Iterator[str]:
        if not all(volume.affinity is None or selects(volume.affinity, "", labels) for _, volume in bound):
            yield "a volume of the pod cannot be used on the node"
        if not all(_in_zone(volume, labels) for volume in zoned):
            yield "a volume of the pod is in another zone"
        yield from unbound.reasons(name, labels)
        yield from _limit_reasons(name, new, pod, nodes)

    return reasons


def volume_version(needs: Needs, nodes: Nodes) -> tuple[int, ...]:
    """A version that changes whenever an answer of ``volume_check`` may change; () if none can."""
    if not needs.volumes:
        return ()
    return nodes.storage.version, *(nodes.pods.users(use.claim).changed for use in needs.volumes)


def volume_facts(needs: Needs, nodes: Nodes, node: str) -> tuple[object, ...]:
    """The facts by which kube-scheduler judges the pod's volumes on the node; () without volumes.

    The node that kube-scheduler itself chose for a claim is left out.
    """
    if not needs.volumes:
        return ()
    storage = nodes.storage
    claims = [claim for use in needs.volumes if (claim := storage.claims.get(use.claim))]
    return (
        tuple(replace(claim, selected_node=None) for claim in claims),
        tuple(storage.volume(claim.volume) for claim in claims),
        tuple(storage.classes.get(claim.storage_class) for claim in claims),
        storage.limits.get(node),
    )


def _faults(needs: Needs, storage: Storage, nodes: Nodes, own_node: str) -> Iterator[str]:
    """Reasons why the pod's volumes exclude every node."""
    for use in needs.volumes:
        name = f"PersistentVolumeClaim {use.claim}"
        claim = storage.claims.get(use.claim)
        if claim is None:
            yield f"{name} does not exist"
        elif claim.lost or (claim.bound and storage.volume(claim.volume) is None):
            yield f"PersistentVolume {claim.volume} of {name} does not exist"
        elif claim.deleting:
            yield f"{name} is being deleted"
        elif use.owner and use.owner != claim.controller:
            yield f"{name} was not created for the pod"
        elif not claim.bound and (claim.volume or not _waits(claim, storage)):
            yield f"{name} is not bound to a volume"
        elif not use.owner and "ReadWriteOncePod" in claim.access_modes and _users(use, nodes) > bool(own_node):
            yield f"another pod uses {name}, which allows only one (ReadWriteOncePod)"


def _waits(claim: VolumeClaim, storage: Storage) -> bool:
    """Whether the claim gets a volume when its pod is scheduled."""
    found = storage.classes.get(claim.storage_class)
    return found is not None and found.waits


def _users(use: VolumeUse, nodes: Nodes) -> int:
    return sum(nodes.pods.users(use.claim).by_node.values())


def _in_zone(volume: Volume, labels: Mapping[str, str]) -> bool:
    """Whether the node has the volume's zone and region; a node without any such label has all of them."""
    if not any(key in labels for key in ZONE_LABELS):
        return True
    return all(labels.get(key, labels.get(_STABLE_LABELS.get(key, key))) in values for key, values in volume.zones)


class _Unbound:
    """Claims that get a volume when the pod has a node."""

    def __init__(self, claims: Sequence[VolumeClaim], storage: Storage):
        self._classes = storage.classes
        self._provisioned = [claim for claim in claims if claim.selected_node is not None]
        free = [claim for claim in claims if claim.selected_node is None]
        self._free = [(claim, _Suitable(claim, storage)) for claim in sorted(free, key=lambda claim: claim.storage)]

    def reasons(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        """Reasons why the claims cannot get volumes on the node."""
        if any(claim.selected_node != name for claim in self._provisioned):
            yield "a volume of the pod is being provisioned for another node"
            return
        chosen: set[str] = set()
        missing = list(self._provisioned)
        for claim, suitable in self._free:
            volume = suitable.first(labels, chosen)
            if volume is None:
                missing.append(claim)
            else:
                chosen.add(volume.name)
        for claim in missing:
            if not _can_provision(self._classes[claim.storage_class], labels):
                yield f"no volume for PersistentVolumeClaim {claim.key} can be used or provisioned on the node"


class _Suitable:
    """Volumes that a claim can be bound to, the smallest first."""

    def __init__(self, claim: VolumeClaim, storage: Storage):
        found = [volume for volume in storage.candidates(claim) if _suits(claim, volume)]
        self._reserved = next((volume for volume in found if volume.claim), None)
        free = (volume for volume in found if not volume.claim and volume.available and _offers(claim, volume))
        self._by_label: dict[tuple[str, str], list[tuple[int, Volume]]] = {}
        for rank, volume in enumerate(sorted(free, key=lambda volume: volume.storage)):
            for pair in _places(volume):
                self._by_label.setdefault(pair, []).append((rank, volume))
        self._keys = dict.fromkeys(key for key, _ in self._by_label)

    def first(self, labels: Mapping[str, str], chosen: Collection[str]) -> Volume | None:
        """The first volume for a node with these labels that is not chosen already; None if there is none."""
        if self._reserved is not None:
            # Only this volume is right for the claim, wherever it is.
            return self._reserved if _usable(self._reserved, labels) else None
        lists = (self._by_label.get((key, labels.get(key, "")), ()) for key in self._keys)
        ranked = merge(*lists, key=lambda entry: entry[0])
        return next((v for _, v in ranked if v.name not in chosen and _usable(v, labels)), None)


def _suits(claim: VolumeClaim, volume: Volume) -> bool:
    return (
        volume.storage_class == claim.storage_class
        and volume.storage >= claim.storage
        and volume.mode == claim.mode
        and volume.attributes_class == claim.attributes_class
        and not volume.deleting
    )


def _offers(claim: VolumeClaim, volume: Volume) -> bool:
    selected = claim.selector is None or claim.selector.selects(volume.labels)
    return selected and volume.access_modes.issuperset(claim.access_modes)


def _usable(volume: Volume, labels: Mapping[str, str]) -> bool:
    return volume.affinity is None or selects(volume.affinity, "", labels)


def _places(volume: Volume) -> Sequence[tuple[str, str]]:
    """Labels such that every node that can use the volume has one of them. ("", "") stands for any node."""
    if volume.affinity is not None and len(volume.affinity.terms) == 1:
        for requirement in volume.affinity.terms[0].expressions:
            if requirement.operator == "In":
                return [(requirement.key, value) for value in requirement.values]
    return [("", "")]


def _can_provision(storage_class: StorageClass, labels: Mapping[str, str]) -> bool:
    if storage_class.provisioner in ("", _NO_PROVISIONER):
        return False
    terms = storage_class.topologies
    return not terms or any(term and all(holds(item, labels) for item in term) for term in terms)


def _attachment(claim: VolumeClaim, storage: Storage) -> tuple[str, str] | None:
    """A name for the claim's volume, and its driver, to count against a node's limit; None if it does not count."""
    if volume := storage.volume(claim.volume):
        return (f"{volume.driver}/{volume.handle}", volume.driver) if volume.driver else None
    storage_class = storage.classes.get(claim.storage_class)
    return None if storage_class is None else (f"{claim.key} {storage_class.provisioner}", storage_class.provisioner)


def _limit_reasons(name: str, new: Mapping[str, str], pod: str, nodes: Nodes) -> Iterator[str]:
    """Reasons for drivers with too many volumes on the node."""
    limits = nodes.storage.limits.get(name)
    if limits is None or not any(driver in limits.most for driver in new.values()):
        return
    claims = (nodes.storage.claims.get(key) for key in nodes.view(name).volume_claims(pod))
    attached = dict(found for claim in claims if claim and (found := _attachment(claim, nodes.storage)) is not None)
    total = Counter(attached.values())
    total.update(added := Counter(driver for volume, driver in new.items() if volume not in attached))
    for driver in sorted(added):
        if driver in limits.most and total[driver] > limits.most[driver]:
            yield f"the node cannot use more volumes of {driver} (limit {limits.most[driver]})"
