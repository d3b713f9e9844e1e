"""Invariants of a settled cluster, beside those at all times, and the objects that other checks look at."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from driver.kube.api import Api, Object
from driver.kube.objects import claim_name, is_terminal, name_key, pod_phase
from driver.model import Claim, DeviceId, Slice
from driver.names import Names
from driver.wire import slice_from
from driver.wire.slices import slice_with
from simulation.invariants import Invariants, Violation
from simulation.node import SimulatedNode


class SettledInvariants(Invariants):
    """Those of a settled cluster: nothing is held without a user, and what is said of devices is true."""

    def __init__(self, api: Api, names: Names, nodes: Iterable[SimulatedNode] = ()):
        self._uuids: dict[DeviceId, set[object]] = defaultdict(set)
        """The uuids that each device was published with: cards may be exchanged."""
        self._read: dict[str, tuple[object, Slice]] = {}
        """The content of each slice with what it means, by the slice's name."""
        super().__init__(api, names, nodes)

    def check_quiet(self) -> None:
        """Check a settled cluster: nothing may be held without a user.

        Raises:
            Violation: lists everything that is wrong.
        """
        self.check()
        facts = self._fact_violations()
        violations = [*self._unreserved(), *self._idle_allocations(), *self._incomplete_pools(), *facts]
        if violations:
            raise Violation("\n".join(violations))

    def slices(self) -> dict[str, Slice]:
        """All slices now, by name."""
        self._read_watches()
        return {name_key(raw)[1]: self._meaning(raw) for raw in self._slices.all()}

    def pods(self) -> list[Object]:
        """All pods now."""
        self._read_watches()
        return list(self._pods.all())

    def claims(self) -> list[Claim]:
        """All claims now."""
        self._read_watches()
        return list(self._claims.values())

    def _slice_changed(self, raw: Object) -> None:
        super()._slice_changed(raw)
        if self._names.allocates(raw["spec"]["driver"]):
            part = self._meaning(raw)
            for device in part.devices:
                uuid = device.attributes.get(self._names.attribute("uuid"))
                self._uuids[DeviceId(part.driver, part.pool, device.name)].add(uuid)

    def _meaning(self, raw: Object) -> Slice:
        name, spec = raw["metadata"]["name"], raw["spec"]
        content = (spec.get("devices"), spec.get("sharedCounters"))
        known = self._read.get(name)
        if known is not None and known[0] == content:
            return slice_with(raw, known[1].devices, known[1].counter_sets)
        part = slice_from(raw)
        self._read[name] = (content, part)
        return part

    def _fact_violations(self) -> Iterator[str]:
        """What is said about devices is about those that the claim has, and names a card that was there.

        A plugin may say so before it can publish the card: after a reboot, the cards may have other numbers.
        """
        for claim in (claim for claim in self._claims.values() if claim.allocation and self._ours(claim)):
            raw = self._raw_claims.get(claim.namespace, claim.name) or {}
            for entry in (raw.get("status") or {}).get("devices") or ():
                device, uuid = DeviceId(entry["driver"], entry["pool"], entry["device"]), entry["data"].get("uuid")
                if uuid not in self._uuids[device] and device.driver == self._names.driver:
                    yield f"{claim.key}: status.devices says that {device} is {uuid!r}, which was never published"

    def _unreserved(self) -> Iterator[str]:
        """Only in a settled cluster: kube-scheduler removes a reservation when the response to a bind is lost."""
        for pod in self._pods.all():
            namespace, name = name_key(pod)
            for entry in pod["spec"].get("resourceClaims") or [] if pod_phase(pod) == "Running" else []:
                claim = self._claims.get((namespace, claim_name(pod, entry)))
                if claim and pod["metadata"]["uid"] not in [consumer.uid for consumer in claim.reserved_for]:
                    yield f"pod {namespace}/{name} runs, but {claim.key} is not reserved for it"

    def _idle_allocations(self) -> Iterator[str]:
        live = {pod["metadata"]["uid"] for pod in self._pods.all() if not is_terminal(pod)}
        for claim in self._claims.values():
            users = [one for one in claim.reserved_for if one.uid in live or one.resource != "pods"]
            if claim.allocation and not users:
                yield f"{claim.key} is allocated, but not reserved for any pod that still runs"

    def _incomplete_pools(self) -> Iterator[str]:
        pools = self.pools()
        for node in self._nodes:
            specs = pools.get(self._names.pool(node.name), ())
            wanted = {spec["pool"]["resourceSliceCount"] for spec in specs}
            if wanted != {len(specs)}:
                yield f"pool of node {node.name}: {len(specs)} slices, resourceSliceCount {sorted(wanted)}"
