"""Invariants of a cluster at all times, checked on the API's objects and on the containers of the nodes alone.

No code of the controller is used to check the controller: the sums are computed here, from the claims and slices in the
API. Unchanged objects that passed are not checked again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from driver.kinds import KIND_ATTRIBUTE, WHOLE_KINDS
from driver.kube.api import PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Api, Object, Resource
from driver.kube.objects import claim_name, is_deleting, name_key, pod_phase
from driver.kube.reflector import Reflector
from driver.model import Allocation, Capacity, Claim, CounterSet, Device, DeviceId, Result
from driver.names import FINALIZER, Names
from driver.quantity import Quantity
from driver.wire import claim_from, slice_from
from simulation.kubernetes.component import ObjectCache
from simulation.node import SimulatedNode

ZERO = Quantity(0)


class Violation(AssertionError):
    """The cluster is in a state that must never occur."""


@dataclass(frozen=True, slots=True)
class Holding:
    """One device, or a share of it, and its holder."""

    holder: str
    result: Result


class Catalogue:
    """Every device of an allocated driver that was ever published, and the most that there ever was of each counter.

    A starting kubelet deletes its node's slices, but running containers still hold their devices. While a card has
    foreign partitions, less of it is published, but earlier allocations still hold it.

    Args:
        complete: whether all that is published is learned at once, so that nobody may hold what is not known.
    """

    def __init__(self, names: Names, *, complete: bool = True):
        self._names = names
        self._complete = complete
        self.devices: dict[DeviceId, Device] = {}
        self.counter_sets: dict[tuple[str, str], CounterSet] = {}
        self._learned: dict[str, tuple[object, object]] = {}

    def learn(self, raw: Object) -> None:
        """Add the content of a ResourceSlice."""
        name, spec = raw["metadata"]["name"], raw["spec"]
        content = (spec.get("devices"), spec.get("sharedCounters"))
        if self._learned.get(name) == content:
            return
        self._learned[name] = content
        part = slice_from(raw)
        for device in part.devices:
            name_in_cluster = DeviceId(part.driver, part.pool, device.name)
            self.devices[name_in_cluster] = _roomiest(device, self.devices.get(name_in_cluster, device))
        for counters in part.counter_sets:
            key = part.pool, counters.name
            self.counter_sets[key] = _most(counters, self.counter_sets.get(key, counters))

    def conflicts(self, holdings: Iterable[Holding]) -> Iterator[str]:
        """Every reason why these holdings cannot all exist at once."""
        by_device: dict[DeviceId, list[Holding]] = defaultdict(list)
        for holding in holdings:
            if self._names.allocates(holding.result.device.driver) and not holding.result.admin_access:
                by_device[holding.result.device].append(holding)
        unknown = [device for device in by_device if self._complete and device not in self.devices]
        yield from (f"{device} was never published, held by {_holders(by_device[device])}" for device in unknown)
        known = {device: held for device, held in by_device.items() if device in self.devices}
        for device, held in known.items():
            yield from self._device_conflicts(device, held)
        yield from self._counter_conflicts(known)
        yield from self._card_conflicts(known)

    def _device_conflicts(self, device: DeviceId, held: list[Holding]) -> Iterator[str]:
        described = self.devices[device]
        if not described.allow_multiple:
            if len(held) > 1:
                yield f"{device} is exclusive, held by {_holders(held)}"
            if any(holding.result.share_id for holding in held):
                yield f"{device} is exclusive, but held with a share id by {_holders(held)}"
            return
        shares = [holding.result.share_id for holding in held]
        if "" in shares or len(set(shares)) < len(shares):
            yield f"{device} is shared, share ids {shares} of {_holders(held)} are not all set and different"
        for name, capacity in described.capacity.items():
            total = sum(holding.result.consumed.get(name, ZERO).nanos for holding in held)
            used = Quantity(total, capacity.value.format)
            if used > capacity.value:
                yield f"{device}: {name} {used} of {capacity.value} in use by {_holders(held)}"
        if any(set(holding.result.consumed) != set(described.capacity) for holding in held):
            yield f"{device}: consumed capacities are incomplete for {_holders(held)}"

    def _counter_conflicts(self, held: Mapping[DeviceId, list[Holding]]) -> Iterator[str]:
        used: dict[tuple[str, str, str], Quantity] = defaultdict(lambda: ZERO)
        for device in held:
            for consumption in self.devices[device].consumes:
                for counter, amount in consumption.counters.items():
                    used[device.pool, consumption.counter_set, counter] += amount
        for (pool, name, counter), amount in used.items():
            counters = self.counter_sets.get((pool, name))
            limit = counters.counters.get(counter, ZERO) if counters else ZERO
            if amount > limit:
                users = {d.device: _holders(h) for d, h in held.items() if d.pool == pool}
                yield f"{pool}: counter {name}/{counter} {amount} of {limit} in use: {users}"

    def _card_conflicts(self, held: Mapping[DeviceId, list[Holding]]) -> Iterator[str]:
        """A card may be held as a whole, in shares, or in partitions, but not in two of these ways."""
        cards: dict[tuple[object, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for device in (one for one in held if one.driver == self._names.driver):
            attributes = self.devices[device].attributes
            kind = str(attributes[self._names.attribute(KIND_ATTRIBUTE)])
            # Cards of device plugins have no index of their own.
            index, uuid = (attributes.get(self._names.attribute(name)) for name in ("index", "uuid"))
            cards[device.pool, index, uuid][kind].add(device.device)
        for (pool, number, _), kinds in cards.items():
            whole = any(kind in WHOLE_KINDS and len(devices) > 1 for kind, devices in kinds.items())
            if len(kinds) > 1 or whole:
                yield f"{pool}: card {number} is held as {dict(kinds)} at once"


def _most(one: CounterSet, other: CounterSet) -> CounterSet:
    return replace(one, counters={name: max(n, other.counters.get(name, n)) for name, n in one.counters.items()})


def _roomiest(one: Device, other: Device) -> Device:
    """The device with the most that it ever had: a device plugin may report fewer replicas than claims have."""
    if one.capacity.keys() != other.capacity.keys():
        return one
    most = {name: max(one.capacity[name], other.capacity[name], key=_value) for name in one.capacity}
    return replace(one, capacity=most)


def _value(capacity: Capacity) -> Quantity:
    return capacity.value


def _holders(held: Iterable[Holding]) -> str:
    return ", ".join(sorted({holding.holder for holding in held}))


Held = tuple[tuple[str, tuple[tuple[str, Result], ...]], ...]
"""Devices of the running containers of a node: by pod, each with the uid of its claim."""


def _held_on(node: SimulatedNode) -> Held:
    return tuple(
        (container.pod, container.devices) for container in node.containers.values() if not container.exit_phase
    )


class Invariants:
    """Watches the API without faults and checks its objects and the containers on the nodes."""

    def __init__(self, api: Api, names: Names, nodes: Iterable[SimulatedNode] = ()):
        self._names = names
        self._nodes = nodes
        self._catalogue = Catalogue(names)
        self._api = api
        self._checked_containers: list[Held] = []
        self.read_anew()

    def read_anew(self) -> None:
        """Forget all objects, as after the API was restored from a backup. Earlier published devices still count."""
        self._slices = ObjectCache(self._slice_changed)
        self._raw_claims = ObjectCache(self._claim_changed)
        self._pods = ObjectCache(lambda _: self._unchecked.add(PODS))
        self._claims: dict[tuple[str, str], Claim] = {}
        self._unchecked: set[Resource] = {RESOURCE_CLAIMS, RESOURCE_SLICES, PODS}
        self._reflectors = [
            Reflector(self._api, RESOURCE_SLICES, self._slices.apply),
            Reflector(self._api, RESOURCE_CLAIMS, self._raw_claims.apply),
            Reflector(self._api, PODS, self._pods.apply),
        ]

    def check(self) -> None:
        """Check the cluster as it is now.

        Raises:
            Violation: lists everything that is wrong.
        """
        self._read_watches()
        violations: list[str] = []
        if self._unchecked & {RESOURCE_CLAIMS, RESOURCE_SLICES}:
            violations += self._claim_violations()
        if self._unchecked & {RESOURCE_CLAIMS, PODS}:
            violations += self._pod_violations()
        containers = [_held_on(node) for node in self._nodes]
        if RESOURCE_SLICES in self._unchecked or containers != self._checked_containers:
            violations += self._container_violations(containers)
        if violations:
            raise Violation("\n".join(violations))
        self._unchecked.clear()
        self._checked_containers = containers

    def pools(self) -> dict[str, tuple[Object, ...]]:
        """The published slices: by pool, their specs without the pool generation."""
        self._read_watches()
        pools: dict[str, list[Object]] = defaultdict(list)
        for raw in sorted(self._slices.all(), key=name_key):
            spec = raw["spec"]
            pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
            pools[spec["pool"]["name"]].append({**spec, "pool": pool})
        return {name: tuple(specs) for name, specs in pools.items()}

    def _read_watches(self) -> None:
        for reflector in self._reflectors:
            if not reflector.synced:
                reflector.step()
            reflector.step()

    def _slice_changed(self, raw: Object) -> None:
        self._unchecked.add(RESOURCE_SLICES)
        if self._names.allocates(raw["spec"]["driver"]):
            self._catalogue.learn(raw)

    def _claim_changed(self, raw: Object) -> None:
        self._unchecked.add(RESOURCE_CLAIMS)
        key = name_key(raw)
        if self._raw_claims.get(*key) is None:
            self._claims.pop(key, None)
        else:
            self._claims[key] = claim_from(raw)

    def _ours(self, claim: Claim) -> bool:
        results = claim.allocation.results if claim.allocation else ()
        return any(result.device.driver == self._names.driver for result in results)

    def _claim_violations(self) -> Iterator[str]:
        yield from self._catalogue.conflicts(
            Holding(claim.key, result)
            for claim in self._claims.values()
            if claim.allocation
            for result in claim.allocation.results
        )
        for claim in filter(self._ours, self._claims.values()):
            if FINALIZER not in claim.finalizers:
                yield f"{claim.key} is allocated without the finalizer {FINALIZER}"
            if claim.allocation:
                yield from self._allocation_violations(claim.key, claim.allocation)

    def _allocation_violations(self, key: str, allocation: Allocation) -> Iterator[str]:
        if not allocation.timestamp:
            yield f"{key}: allocationTimestamp is not set: kube-scheduler could never bind its pod"
        pools = {r.device.pool for r in allocation.results if r.device.driver == self._names.driver}
        if pools != {self._names.pool(allocation.node_name)}:
            yield f"{key} is allocated for node {allocation.node_name!r}, with devices of {sorted(pools)}"

    def _pod_violations(self) -> Iterator[str]:
        for pod in self._pods.all():
            if pod_phase(pod) != "Running" or is_deleting(pod):
                continue
            namespace, name = name_key(pod)
            for entry in pod["spec"].get("resourceClaims") or []:
                claim = self._claims.get((namespace, claim_name(pod, entry)))
                if claim is None or claim.allocation is None:
                    yield f"pod {namespace}/{name} runs, but its claim for {entry['name']} is not allocated"
                elif claim.allocation.node_name not in ("", pod["spec"]["nodeName"]):
                    yield f"pod {namespace}/{name} runs on another node than its claim {claim.key}"

    def _container_violations(self, containers: Iterable[Held]) -> Iterator[str]:
        """Containers may use one claim together; different claims must not overlap on the hardware."""
        for node, running in zip(self._nodes, containers, strict=True):
            held = {
                (claim, result.device, result.share_id): Holding(f"containers of {pod}", result)
                for pod, devices in running
                for claim, result in devices
            }
            yield from (f"on node {node.name}: {conflict}" for conflict in self._catalogue.conflicts(held.values()))
