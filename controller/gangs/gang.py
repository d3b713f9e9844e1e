"""A gang and the decision about it, as values. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from controller.placement import Placed, Placement, PodDemand
from driver.parameters import PlacementPolicy


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the topology, such as "one InfiniBand cluster" or "one leaf".

    Attributes:
        key: the qualified name of a device attribute (``lode.dev/ibCluster``), or the key of a node label.
        kind: kind of the key. A device or node without the key, or with the value "", is in no domain of the level.
        required: whether the gang must stay in one domain of the level; if not, it stays where that is possible.
        group_size: if set, every group of this size, in the order of ranks, stays in one domain of the level
            instead of the whole gang.
        wait_seconds: time that the gang waits for one domain of a preferred level before it takes several.
        per_sub_group: if set, every sub-group stays in one domain of the level instead of the whole gang. Members of no
            sub-group may be anywhere.
        task_groups: if set, tasks, each with the name of a group. The members of each group stay in one domain of the
            level instead of the whole gang. Those of other tasks may be anywhere.
    """

    key: str
    kind: Literal["attribute", "nodeLabel"]
    required: bool = True
    group_size: int = 0
    wait_seconds: int = 0
    per_sub_group: bool = False
    task_groups: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class ValueConstraint:
    """What the members' devices have to have in common, or apart.

    The values of a member are those of the attribute over all devices that it gets, of whatever driver. Devices without
    the attribute count for nothing, and neither does a member that asks for no device with it. "" is an unknown value,
    which meets no constraint.

    Attributes:
        attribute: the qualified name of a device attribute, such as ``lode.dev/rail``.
        kind: ``sameSet``: all members have the same set of values. ``same``: all devices of all members have one value.
            ``distinct``: no value is of two members; those that share a claim count as one.
        required: whether the gang waits until it can be met; if not, it is met where that costs nothing.
    """

    attribute: str
    kind: Literal["sameSet", "same", "distinct"]
    required: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.attribute}"


TaskMinimums = tuple[tuple[str, int], ...]
"""Names of tasks, each with the number of members that have to start."""


SubGroup = tuple[int, str]
"""A sub-group of members: its index in ``Gang.sub_groups``, and its name."""


@dataclass(frozen=True, slots=True)
class SubGroups:
    """A kind of sub-groups, each of which becomes whole or does not start.

    Attributes:
        size: number of members with which a sub-group is whole. Further members start where they fit.
        minimum: number of whole sub-groups that are needed, including those with a place.
    """

    size: int
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A member to place.

    Attributes:
        rank: its position in the order of the members, from 0; neighbors share the smallest domains. Members of equal
            rank are ordered by the natural order of their keys.
        leader: whether it is the leader, which stands beside rank 0.
        task: the part of the gang that it belongs to, such as its parameter servers; "" for none.
        sub_group: its sub-group; None for none.
    """

    demand: PodDemand
    rank: int = 0
    leader: bool = False
    task: str = ""
    sub_group: SubGroup | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A member with a place: its devices are allocated on a node. It determines the domain of the gang."""

    pod: str
    placed: Placed
    rank: int = 0
    leader: bool = False
    task: str = ""
    sub_group: SubGroup | None = None

    @property
    def has_devices(self) -> bool:
        """Whether it has devices of ours. Without any, it determines no domain of an attribute."""
        return bool(self.placed.allocations)


@dataclass(frozen=True, slots=True)
class Gang:
    """The question that is decided for one gang.

    Attributes:
        key: ``namespace/name``, as users know it.
        uid: tells gangs of one name apart; the order of domains under ``spread`` follows from it.
        members: members to place now.
        standing: members that keep their place.
        minimum: number of members that must have a place, including ``standing``. Others are placed where possible.
        task_minimums: the same for single tasks.
        sub_groups: kinds of sub-groups. Once one has members with a place, it gets further members one by one.
        succeeded: sub-groups with the number of their members that have succeeded; these count.
        starts: whether nobody has started, so that sub-groups with members that have a place become whole, too.
        levels: outermost first.
        elapsed: seconds since the gang was complete, for ``Level.wait_seconds``.
        constraints: values that the members' devices have to have in common, or apart.
        moves: whether the gang may choose a new domain if its members with a place are in no domain of a required
            level; if not, nobody is placed until they are in one.
    """

    key: str
    uid: str
    members: tuple[Member, ...]
    standing: tuple[Standing, ...] = ()
    minimum: int = 1
    task_minimums: TaskMinimums = ()
    sub_groups: tuple[SubGroups, ...] = ()
    succeeded: tuple[tuple[SubGroup, int], ...] = ()
    starts: bool = False
    levels: tuple[Level, ...] = ()
    policy: PlacementPolicy = "binpack"
    elapsed: float = 0.0
    constraints: tuple[ValueConstraint, ...] = ()
    moves: bool = False

    def insisting(self) -> "Gang | None":
        """The same with all alignments required that claims of members prefer; None if they prefer none."""
        demands = [member.demand.insisting() for member in self.members]
        if not any(demands):
            return None
        pairs = zip(self.members, demands, strict=True)
        return replace(self, members=tuple(replace(one, demand=demand) if demand else one for one, demand in pairs))


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain: the values of the levels from the outermost to its own. The whole cluster is ()."""

    path: tuple[tuple[str, str], ...] = ()
    """Level key and value."""

    def __str__(self) -> str:
        return "/".join(value for _, value in self.path) or "the cluster"


@dataclass(frozen=True, slots=True)
class DomainFit:
    """How many members fit in one domain.

    Attributes:
        placed: number of members that fit there at once; an upper bound if it is below ``needed``.
        needed: number of members that have to fit.
        reason: the resource that is missing, as text; "" if all fit.
        decided: False if the budget of the search ran out: then the domain may fit the gang.
    """

    domain: Domain
    placed: int
    needed: int
    reason: str = ""
    decided: bool = True


@dataclass(frozen=True, slots=True)
class GangPlan:
    """A place for each member, in the order of ranks. Members beyond the minimum may have none.

    Attributes:
        domain: the smallest domain with all of these places.
    """

    domain: Domain
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class TriedDomains:
    """Why no domain takes the gang now.

    Attributes:
        fits: one for each domain that was examined, in the order of their paths.
        outside: number of nodes in no domain of the widest level that was tried, and the key of the level.
        nowhere: key of a member that no node takes, even without the others; "" if each of them could be placed alone,
            or if that is not known.
        lacking: keys of claims for which no node has devices, whatever else the members get: of those that several
            members share, and of those that kube-scheduler is to allocate.
        values: the constraint that cannot be met, and what is missing where, as text; "" if that is not the reason.
    """

    fits: tuple[DomainFit, ...] = ()
    outside: tuple[int, str] = (0, "")
    nowhere: str = ""
    lacking: tuple[str, ...] = ()
    values: str = ""

    @property
    def decided(self) -> bool:
        """Whether the search was finished, so that the gang really does not fit."""
        return all(fit.decided for fit in self.fits)
