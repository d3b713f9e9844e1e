"""What gangs ask of the values of their members' devices, judged by what was allocated and not by how it was decided.

Gangs here are those that claims name (``gang.name``), each of which shares no claim among its members.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from controller.state import PodView
from controller.state.claims import ClaimRecord
from driver.kube.api import PODS, RESOURCE_CLAIMS, Resource
from driver.model import Allocation, Claim, Device, DeviceId
from driver.names import Names

Values = frozenset[Any]
KINDS: Final = ("sameSet", "same", "distinct")


class Constraint(NamedTuple):
    """One that has to be met."""

    kind: str
    attribute: str


def meet(kind: str, each: Collection[Values]) -> bool:
    """Whether members with these values have in common, or apart, what a constraint of this kind asks for."""
    union: Values = frozenset().union(*each)
    if "" in union:
        return False
    if kind == "sameSet":
        return len({*each}) <= 1
    return len(union) <= 1 if kind == "same" else len(union) == sum(map(len, each))


class ValueRules:
    """Rules for what a process gives to gangs, by what it was told.

    Args:
        told: ``PodView`` and ``ClaimRecord`` by kind and key; may change afterwards.
        device: finds a device as it is published; None if it is not.
    """

    def __init__(
        self, told: Mapping[Resource, Mapping[str, Any]], names: Names, device: Callable[[DeviceId], Device | None]
    ):
        self._told = told
        self._names = names
        self._device = device

    def problems_beside_bound(self, claim: Claim, allocation: Allocation) -> Iterator[str]:
        """What is wrong with an allocation beside the members that are bound, which nobody takes anything from."""
        bound = [held for pod, held in self._members(claim) if pod.node_name and held is not allocation]
        yield from self._problems(claim, [*bound, allocation] if bound else ())

    def problems_of_start(self, pod: PodView) -> Iterator[str]:
        """What is wrong with a gang of which the first pod is let go: all that start with it have their devices."""
        records = [self._told[RESOURCE_CLAIMS].get(key) for key in pod.claim_keys]
        for claim in (record.claim for record in records if record is not None):
            members = self._members(claim)
            if not any(not one.gates for one, _ in members if one.uid != pod.uid):
                yield from self._problems(claim, [held for _, held in members])

    def _problems(self, claim: Claim, each: Sequence[Allocation]) -> Iterator[str]:
        _, constraints = self._gang(claim)
        for kind, attribute in constraints:
            found = [values for held in each if (values := self._values(held, attribute))]
            if not meet(kind, found):
                yield f"gang of {claim.name} has {[sorted(map(str, one)) for one in found]}, against {kind} {attribute}"

    def _values(self, held: Allocation, attribute: str) -> Values:
        """The values of a member; none if one of its devices is not published, because then nobody knows them."""
        devices = [self._device(result.device) for result in held.results]
        if None in devices:
            return frozenset()
        values = [one.attributes[attribute] for one in devices if one is not None and attribute in one.attributes]
        return frozenset(values)

    def _members(self, claim: Claim) -> list[tuple[PodView, Allocation]]:
        """The pods of the claim's gang that live, with what each holds."""
        gang, _ = self._gang(claim)
        found: list[tuple[PodView, Allocation]] = []
        for pod in self._told[PODS].values() if gang else ():
            if pod.namespace == claim.namespace and not (pod.terminal or pod.deleting):
                records: list[ClaimRecord | None] = [self._told[RESOURCE_CLAIMS].get(key) for key in pod.claim_keys]
                held = [one.claim for one in records if one is not None and self._gang(one.claim)[0] == gang]
                found += [(pod, one.allocation) for one in held if one.allocation is not None]
        return found

    def _gang(self, claim: Claim) -> tuple[str, Sequence[Constraint]]:
        """The gang that the claim names, and what it asks for; "" for none."""
        for config in claim.spec.config:
            gang = config.parameters.get("gang") if config.driver == self._names.driver else None
            if isinstance(gang, Mapping) and gang.get("name"):
                asked = [one for one in gang.get("constraints") or () if one.get("mode") != "preferred"]
                return gang["name"], [Constraint(kind, one[kind]) for one in asked for kind in KINDS if kind in one]
        return "", ()
