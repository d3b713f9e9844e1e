"""The preferences of a request among sufficient devices and nodes: the policy in its ``PlacementConfig``. Pure.

A preference only orders devices and nodes; it never changes which fit. Without a preference, devices are tried in the
order of their pools and nodes in natural order, as by kube-scheduler's allocator.

The **load** of a card or node is the part of it that is in use once the request is satisfied, in millionths, rounded
down. Loads compare cards and nodes of different size by how full they would be.

A **policy** ranks nodes and devices: the smallest rank first, equal ones in the order in which they are given. The
domains of gangs are compared by ``gangs.domains``.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from driver.errors import Fault, InvalidInput
from driver.model import Claim, DeviceClass, OpaqueConfig, Want, unqualify
from driver.names import LINKS, NUMA_NODE, PCIE_ROOT, PCIE_SWITCH, Names
from driver.parameters import Configured, Parameters, PlacementConfig, PlacementPolicy, applies_to, parameters_of


class PolicyRanks(ABC):
    """The ranks under one policy. Loads are in millionths (``preferences.load``)."""

    prefers = True
    """True if some nodes or devices have a better rank than others."""
    spares_partitions = False
    """True if a node is better where a partition costs less (``nodefit.partition_cost``), whatever its rank."""

    @abstractmethod
    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        """The rank of a node by its load and by what is left, both once the request is satisfied."""

    @abstractmethod
    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        """The rank of a shareable device by its load after the pick, and by whether others use it."""

    @abstractmethod
    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        """The rank of a partition by the load of its card after the pick, and by what the pick costs."""

    @abstractmethod
    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        """The rank of devices close to one another by how many are free among them, and in each wider group."""


class _FirstFit(PolicyRanks):
    prefers = False

    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return ()

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return ()

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return ()

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return ()


class _Binpack(PolicyRanks):
    spares_partitions = True

    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return -load, left

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return not used, -load

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return (lost,)

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return tuple(free)


class _Spread(PolicyRanks):
    def of_node(self, load: int, left: int) -> tuple[int, ...]:
        return load, -left

    def of_share(self, load: int, *, used: bool) -> tuple[int, ...]:
        return used, load

    def of_partition(self, load: int, lost: tuple[tuple[int, int], ...]) -> tuple[object, ...]:
        return load, lost

    def of_group(self, free: Iterable[int]) -> tuple[int, ...]:
        return tuple([-count for count in free])


_FIRST_FIT, _BINPACK, _SPREAD = _FirstFit(), _Binpack(), _Spread()


def ranks_of(policy: PlacementPolicy) -> PolicyRanks:
    """The ranks under a policy."""
    match policy:
        case "firstFit":
            return _FIRST_FIT
        case "binpack":
            return _BINPACK
        case "spread":
            return _SPREAD
        case _:
            assert_never(policy)


MILLION: Final = 10**6
"""A load of 1."""


@dataclass(frozen=True, slots=True)
class Preference:
    """The preference of one request."""

    policy: PlacementPolicy = "firstFit"
    node_policy: PlacementPolicy | None = None
    """The policy among nodes; None if it is ``policy``."""
    near: tuple[str, ...] = ()
    """Attributes of which several cards should share a value, the tightest level first; empty if locality is off."""
    links: tuple[str, str] | None = None
    """Attributes with the links of a card, and with the number by which they name others; None if locality is off."""
    memory_percent: int = 0
    """Memory of each share in per cent of its card's; 0 if the request has an amount."""

    @property
    def ranks(self) -> PolicyRanks:
        """The ranks of devices under the policy."""
        return ranks_of(self.policy)

    @property
    def node_ranks(self) -> PolicyRanks:
        """The ranks of nodes under the policy among nodes."""
        return ranks_of(self.node_policy or self.policy)

    def orders(self, count: int) -> bool:
        """True if a request for ``count`` devices prefers some devices or nodes to others."""
        return self.node_ranks.prefers or self.orders_devices(count)

    def orders_devices(self, count: int) -> bool:
        """True if a request for ``count`` devices prefers some devices of a node to others."""
        return self.ranks.prefers or (bool(self.near) and count > 1)


FIRST_FIT: Final = Preference()
"""No preference."""


def load(used: int, total: int) -> int:
    """The part in use in millionths, rounded down; a full million if there is nothing to use.

    >>> load(1, 3)
    333333
    """
    return used * MILLION // total if total > 0 else MILLION


def node_rank(preference: Preference, available: int, total: int, asked: int) -> tuple[int, ...]:
    """The rank of a node among those that can satisfy a request: the smallest first, equal ones in natural order.

    ``binpack`` prefers the node with the highest load once the request is satisfied, of equal loads the one with least
    left; ``spread`` the lowest load, then most left. Without a policy every node has the rank ().

    Args:
        available: the free amount on the node. Whole devices and partitions count as one each (every placement that is
            available now); shareable devices with the free part of each, in millionths.
        total: the amount if nothing were in use, of all devices that its selectors select.
        asked: the consumption of the request, in the same unit.
    """
    left = available - asked
    return preference.node_ranks.of_node(load(total - left, total), left)


class Preferences:
    """The preferences that a claim and its device classes set in their config.

    Each field is merged by itself: the claim's config overrides the class's, a later entry an earlier one. With one
    exception: memory that the request asks for overrides a percentage from its class.

    ``faults`` are the faults of the claim's placement config. Its author must act.
    """

    def __init__(self, claim: Claim, names: Names):
        self._names = names
        self._own, self.faults = _read(claim.spec.config, names, f"claim {claim.key}", "spec.devices.config")

    def preference_of(
        self, request: str, want: Want, device_class: DeviceClass, path: str, *, ours: bool = True
    ) -> tuple[Preference, tuple[Fault, ...]]:
        """The preference of one choice of a request, and its faults.

        Args:
            request: the name in results, ``main`` or ``main/sub``.
            path: the field of the claim that holds the want.
            ours: whether devices of our driver may satisfy the want. Per cent of the memory of others mean nothing.
        """
        if not self._own and not device_class.config:
            return FIRST_FIT, ()
        subject = f"device class {device_class.name}"
        field = f"{subject}: spec.config"
        given, faults = _read(device_class.config, self._names, subject, field, of_class=True)
        own = [entry.parameters for entry in self._own if applies_to(entry, request)]
        asked = [name for name in want.capacity if unqualify(name, self._names.driver) == "memory"]
        preference = _merged([entry.parameters for entry in given], own, self._names, own_only=bool(asked))
        if not ours:
            preference = replace(preference, memory_percent=0)
        if preference.memory_percent:
            faults += tuple(_amount_faults(want, asked, preference.memory_percent, path))
        return preference, faults


def _read(
    config: Sequence[OpaqueConfig], names: Names, subject: str, field: str, *, of_class: bool = False
) -> tuple[tuple[Configured, ...], tuple[Fault, ...]]:
    if not config:
        return (), ()
    try:
        return parameters_of(config, names, subject, field, PlacementConfig.__name__, of_class=of_class), ()
    except InvalidInput as error:
        return (), error.faults


def _merged(given: Sequence[Parameters], own: Sequence[Parameters], names: Names, *, own_only: bool) -> Preference:
    policy: PlacementPolicy = "firstFit"
    node_policy: PlacementPolicy | None = None
    locality: str | None = None
    percent = 0
    for source in (given, own):
        for entry in source:
            if not isinstance(entry, PlacementConfig):
                continue
            policy = entry.policy if "policy" in entry.model_fields_set else policy
            node_policy = entry.node_policy or node_policy
            locality = entry.locality or locality
            if source is own or not own_only:
                percent = entry.memory_percent or percent
    near = locality == "preferred" or (locality is None and ranks_of(policy).prefers)
    if not near:
        return Preference(policy, node_policy, memory_percent=percent)
    links = names.attribute(LINKS), names.attribute("index")
    return Preference(policy, node_policy, _levels(names), links, memory_percent=percent)


def _levels(names: Names) -> tuple[str, ...]:
    return names.attribute("nvlinkDomain"), names.attribute(PCIE_SWITCH), PCIE_ROOT, NUMA_NODE


def _amount_faults(want: Want, asked: Iterable[str], percent: int, path: str) -> Iterable[Fault]:
    said = f"memoryPercent {percent} of its PlacementConfig"
    for name in asked:
        field, amount = f"{path}.capacity.requests[{name}]", want.capacity[name]
        yield Fault(field, f"{amount} is asked for beside {said}; say one of them")
    if want.admin_access:
        yield Fault(f"{path}.adminAccess", f"takes nothing of a device, so {said} has no meaning; remove one of them")
