"""Volumes, claims for volumes, storage classes and limits of nodes, as values. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from driver.label_selectors import LabelSelector, label_selector_from
from driver.model import NodeRequirement, NodeSelector
from driver.quantity import Quantity
from driver.wire import Json, node_selector_from
from driver.wire.fields import integer, text, text_map, texts

V = TypeVar("V")

_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLASS = "volume.beta.kubernetes.io/storage-class"
ZONE_LABELS = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
"""Labels of a volume that limit its nodes (plugin VolumeZone)."""


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A core/v1 PersistentVolumeClaim.

    Attributes:
        key: ``namespace/name``.
        controller: uid of the owner that is its controller; "" for none.
        volume: name of its volume; "" while it has none.
        bound: whether binding to ``volume`` is completed.
        storage: requested size in nano-units.
        selected_node: the node that kube-scheduler chose to provision the volume for; None if it chose none.
        lost: whether its volume does not exist any more.
    """

    key: str
    uid: str = ""
    controller: str = ""
    volume: str = ""
    bound: bool = False
    storage_class: str = ""
    attributes_class: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    storage: int = 0
    selector: LabelSelector | None = None
    selected_node: str | None = None
    lost: bool = False
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Volume:
    """A core/v1 PersistentVolume.

    Attributes:
        affinity: selector of the nodes that can use it; None for all.
        zones: keys of zone and region labels, each with its values.
        claim: ``namespace/name`` of the claim that it is reserved for; "" for none.
        claim_uid: uid of that claim, if the reservation has one.
        storage: size in nano-units.
        available: whether a claim may be bound to it.
        handle: ``driver/handle`` of a CSI volume; "" for others.
    """

    name: str
    affinity: NodeSelector | None = None
    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    claim: str = ""
    claim_uid: str = ""
    storage_class: str = ""
    attributes_class: str = ""
    access_modes: frozenset[str] = frozenset()
    mode: str = "Filesystem"
    storage: int = 0
    available: bool = False
    deleting: bool = False
    driver: str = ""
    handle: str = ""


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage.k8s.io/v1 StorageClass.

    Attributes:
        waits: whether a volume is chosen or provisioned only when its first pod has a node.
        topologies: terms for nodes where volumes can be provisioned: all requirements of one term must hold; () for
            everywhere. A term without requirements never holds.
    """

    name: str
    provisioner: str
    waits: bool
    topologies: tuple[tuple[NodeRequirement, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class VolumeLimits:
    """A storage.k8s.io/v1 CSINode: the most volumes of each driver on a node."""

    node: str
    most: Mapping[str, int]


def volume_claim_from(obj: Json) -> VolumeClaim:
    """The value of a PersistentVolumeClaim object. Raises InvalidInput, KeyError, TypeError if it cannot be decoded."""
    metadata, spec = obj["metadata"], obj["spec"]
    annotations = metadata.get("annotations") or {}
    selected = annotations.get(_SELECTED_NODE)
    owners = (text(owner["uid"]) for owner in metadata.get("ownerReferences") or () if owner.get("controller"))
    volume = text(spec.get("volumeName"))
    return VolumeClaim(
        key=f"{metadata['namespace']}/{metadata['name']}",
        uid=text(metadata.get("uid")),
        controller=next(owners, ""),
        volume=volume,
        bound=bool(volume) and _BOUND in annotations,
        storage_class=text(annotations.get(_CLASS) or spec.get("storageClassName")),
        attributes_class=text(spec.get("volumeAttributesClassName")),
        access_modes=texts(spec.get("accessModes")),
        mode=text(spec.get("volumeMode")) or "Filesystem",
        storage=_storage((spec.get("resources") or {}).get("requests")),
        selector=label_selector_from(spec.get("selector")),
        selected_node=None if selected is None else text(selected),
        lost=(obj.get("status") or {}).get("phase") == "Lost",
        deleting=bool(metadata.get("deletionTimestamp")),
    )


def volume_from(obj: Json) -> Volume:
    """The value of a PersistentVolume object. Raises InvalidInput, KeyError, TypeError if it cannot be decoded."""
    metadata, spec = obj["metadata"], obj["spec"]
    labels = text_map(metadata.get("labels"))
    required = (spec.get("nodeAffinity") or {}).get("required")
    claim, csi = spec.get("claimRef") or {}, spec.get("csi") or {}
    return Volume(
        name=text(metadata["name"]),
        affinity=None if required is None else node_selector_from(required),
        zones=tuple((key, frozenset(labels[key].split("__"))) for key in ZONE_LABELS if labels.get(key)),
        labels=labels,
        claim=f"{text(claim['namespace'])}/{text(claim['name'])}" if claim else "",
        claim_uid=text(claim.get("uid")),
        storage_class=text((metadata.get("annotations") or {}).get(_CLASS) or spec.get("storageClassName")),
        attributes_class=text(spec.get("volumeAttributesClassName")),
        access_modes=frozenset(texts(spec.get("accessModes"))),
        mode=text(spec.get("volumeMode")) or "Filesystem",
        storage=_storage(spec.get("capacity")),
        available=(obj.get("status") or {}).get("phase") == "Available",
        deleting=bool(metadata.get("deletionTimestamp")),
        driver=text(csi.get("driver")),
        handle=text(csi.get("volumeHandle")),
    )


def storage_class_from(obj: Json) -> StorageClass:
    """The value of a StorageClass object. Raises KeyError, TypeError if it cannot be decoded."""
    return StorageClass(
        name=text(obj["metadata"]["name"]),
        provisioner=text(obj["provisioner"]),
        waits=obj.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(
            tuple(
                NodeRequirement(text(item["key"]), "In", texts(item["values"]))
                for item in term.get("matchLabelExpressions") or ()
            )
            for term in obj.get("allowedTopologies") or ()
        ),
    )


def volume_limits_from(obj: Json) -> VolumeLimits:
    """The value of a CSINode object. Raises KeyError, TypeError if it cannot be decoded."""
    drivers = obj["spec"].get("drivers") or ()
    limits = {text(driver["name"]): (driver.get("allocatable") or {}).get("count") for driver in drivers}
    most = {name: integer(count) for name, count in limits.items() if count is not None}
    return VolumeLimits(text(obj["metadata"]["name"]), most)


def _storage(amounts: Json | None) -> int:
    return Quantity.parse(str((amounts or {}).get("storage", 0))).nanos


class Storage:
    """All claims for volumes, volumes, storage classes and limits by name.

    Each ``put_`` and ``remove_`` returns whether anything changed.
    """

    def __init__(self) -> None:
        self.claims: dict[str, VolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.limits: dict[str, VolumeLimits] = {}
        """Limits by node."""
        self.unreadable: set[str] = set()
        """Kinds of objects that may not be read. While there are any, volumes exclude no node."""
        self.version = 0
        """Grows with every change."""
        self._volumes: dict[str, Volume] = {}
        self._free: dict[str, dict[str, Volume]] = {}
        self._reserved: dict[str, dict[str, Volume]] = {}

    def volume(self, name: str) -> Volume | None:
        """The volume; None if it does not exist."""
        return self._volumes.get(name)

    def candidates(self, claim: VolumeClaim) -> Iterable[Volume]:
        """Volumes that are reserved for the claim, then volumes of its class that are not reserved."""
        reserved = self._reserved.get(claim.key, {}).values()
        yield from (volume for volume in reserved if volume.claim_uid in ("", claim.uid))
        yield from self._free.get(claim.storage_class, {}).values()

    def put_claim(self, claim: VolumeClaim) -> bool:
        """Add or replace a claim."""
        return self._put(self.claims, claim.key, claim)

    def remove_claim(self, key: str) -> bool:
        """Remove a claim (``namespace/name``)."""
        return self._remove(self.claims, key)

    def put_class(self, storage_class: StorageClass) -> bool:
        """Add or replace a storage class."""
        return self._put(self.classes, storage_class.name, storage_class)

    def remove_class(self, name: str) -> bool:
        """Remove a storage class."""
        return self._remove(self.classes, name)

    def put_limits(self, limits: VolumeLimits) -> bool:
        """Add or replace the limits of a node."""
        return self._put(self.limits, limits.node, limits)

    def remove_limits(self, node: str) -> bool:
        """Remove the limits of a node."""
        return self._remove(self.limits, node)

    def put_volume(self, volume: Volume) -> bool:
        """Add or replace a volume."""
        if self._volumes.get(volume.name) == volume:
            return False
        self.remove_volume(volume.name)
        index, key = self._index(volume)
        index.setdefault(key, {})[volume.name] = volume
        return self._put(self._volumes, volume.name, volume)

    def remove_volume(self, name: str) -> bool:
        """Remove a volume."""
        volume = self._volumes.get(name)
        if volume is None:
            return False
        index, key = self._index(volume)
        del index[key][name]
        if not index[key]:
            del index[key]
        return self._remove(self._volumes, name)

    def _index(self, volume: Volume) -> tuple[dict[str, dict[str, Volume]], str]:
        return (self._reserved, volume.claim) if volume.claim else (self._free, volume.storage_class)

    def _put(self, table: dict[str, V], key: str, value: V) -> bool:
        if table.get(key) == value:
            return False
        table[key] = value
        self.version += 1
        return True

    def _remove(self, table: dict[str, V], key: str) -> bool:
        if table.pop(key, None) is None:
            return False
        self.version += 1
        return True
