"""A gang as the decision sees it, and the decision as a value. Pure."""

from dataclasses import dataclass
from typing import Literal

from controller.allocation import ClaimFault
from controller.placement import Placed, Placement, PodDemand
from driver.parameters import PlacementPolicy


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the topology, such as "one InfiniBand cluster" or "one leaf".

    Attributes:
        key: the qualified name of a device attribute (``lode.dev/ibCluster``), or the key of a node label.
        kind: which of the two. A device or node without the key, or with the value "", is in no domain of the level.
        required: whether the gang must stay in one domain of the level; if not, it does where that is possible.
        group_size: if set, every group of so many members, in the order of ranks, stays in one domain of the level
            instead of the whole gang.
        wait_seconds: how long the gang waits for one domain of a preferred level before it takes more than one.
        per_sub_group: if set, every sub-group stays in one domain of the level instead of the whole gang. Members of no
            sub-group may be anywhere.
    """

    key: str
    kind: Literal["attribute", "nodeLabel"]
    required: bool = True
    group_size: int = 0
    wait_seconds: int = 0
    per_sub_group: bool = False


TaskMinimums = tuple[tuple[str, int], ...]
"""How many members of a task have to start, by the name of the task."""


SubGroup = tuple[int, str]
"""A sub-group of members: which of ``Gang.sub_groups`` it is one of, and its name."""


@dataclass(frozen=True, slots=True)
class SubGroups:
    """Sub-groups that start whole or not at all.

    Attributes:
        size: with how many members one is whole. It may have more, which start where there is room.
        minimum: how many whole ones there have to be, those that stand included.
    """

    size: int
    minimum: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """A member that has to be placed.

    Attributes:
        rank: its place in the order of the members, from 0; neighbors share the smallest domains. Members of equal rank
            are ordered by the natural order of their keys.
        leader: whether it is the leader, which stands beside rank 0.
        task: the part of the gang that it belongs to, such as its parameter servers; "" for none.
        sub_group: that it is in; None for none.
    """

    demand: PodDemand
    rank: int = 0
    leader: bool = False
    task: str = ""
    sub_group: SubGroup | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A member that has its devices already, allocated on a node. It says in which domain the gang is."""

    pod: str
    placed: Placed
    rank: int = 0
    leader: bool = False
    task: str = ""
    sub_group: SubGroup | None = None

    @property
    def has_devices(self) -> bool:
        """Whether it has devices of ours. One that has none says nothing about the domains of an attribute."""
        return bool(self.placed.allocations)


@dataclass(frozen=True, slots=True)
class Gang:
    """What has to be decided for one gang.

    Attributes:
        key: ``namespace/name``, as users know it.
        uid: tells gangs of one name apart; the order of domains under ``spread`` follows from it.
        members: those to place now.
        standing: those that keep their place.
        minimum: how many members must be placed, the standing ones included; those beyond are placed where possible.
        task_minimums: how many members of some tasks must be placed, the standing ones included.
        sub_groups: what sub-groups there are. One of which members stand gets others one by one.
        succeeded: how many members of sub-groups have succeeded, and count.
        starts: whether sub-groups of which members stand have to become whole, too, because nobody has started.
        levels: outermost first.
        elapsed: seconds since the gang was complete, for ``Level.wait_seconds``.
        moves: whether members that stand in no domain of a required level leave the choice of one to the others; if
            not, nobody goes anywhere until they stand in one.
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
    moves: bool = False


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain: the values of the levels from the outermost to its own. The whole cluster is ()."""

    path: tuple[tuple[str, str], ...] = ()
    """Level key and value."""

    def __str__(self) -> str:
        return "/".join(value for _, value in self.path) or "the cluster"


@dataclass(frozen=True, slots=True)
class DomainVerdict:
    """What was found about one domain.

    Attributes:
        placed: how many members fit there at once; an upper bound if it is below ``needed``.
        needed: how many have to.
        reason: what is missing; "" if all fit.
        decided: False if the budget of the search ran out: then the domain may fit the gang.
    """

    domain: Domain
    placed: int
    needed: int
    reason: str = ""
    decided: bool = True


@dataclass(frozen=True, slots=True)
class GangPlan:
    """Where the members go, in the order of ranks. Members beyond the minimum for which there is no room are left out.

    Attributes:
        domain: the smallest domain that holds all of them.
    """

    domain: Domain
    placements: tuple[Placement, ...]


@dataclass(frozen=True, slots=True)
class GangRefusal:
    """No domain takes the gang now.

    Attributes:
        verdicts: one for each domain that was looked at, in the order of their paths.
        faults: what is wrong with claims of members; then no domain could ever take them.
        wait: seconds after which another answer is possible without a change, because a preferred level is waited for;
            None if only a change can help.
        outside: how many nodes are in no domain of the widest level that was tried, and the key of the level.
    """

    verdicts: tuple[DomainVerdict, ...] = ()
    faults: tuple[ClaimFault, ...] = ()
    wait: float | None = None
    outside: tuple[int, str] = (0, "")

    @property
    def decided(self) -> bool:
        """Whether the search was finished, so that the gang really does not fit."""
        return all(verdict.decided for verdict in self.verdicts)
