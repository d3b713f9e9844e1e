"""Groups of groups: which gang they are, and on which terms it starts. Pure.

PodGroups that name a CompositePodGroup form a tree, and all pods under its root are one gang: kube-scheduler queues
them as one, and holds all of them back as long as one of them has a gate. The tree says how many have to exist
(``Quorum``), and which of them stay in one domain (``Level.task_groups``): the task of a member is its PodGroup.

Example: the root needs both of its groups, "prefill" and "decode", in one zone; each of these stays in one rack.

    zone  (serve)               for the whole gang
    rack  (prefill | decode)    for the members of each

The levels of a gang are in one order for all of its members. So what groups say about the order of two levels must not
differ, and must be enough to know it (``nested_levels``).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import Final

from controller.gangs import Level
from controller.membership.terms import Group, Quorum, Source
from driver.errors import Fault
from driver.limits import first_of

MOST_DEEP: Final = 4
"""Most groups inside one another, PodGroups included, as in Kubernetes (``WorkloadMaxTreeDepth``)."""
MOST_GROUPS: Final = 256
"""Most groups of one tree. Each change of one is a change for all members."""
_MOST_NAMED: Final = 3
_KINDS: Final = {Source.POD_GROUP: "PodGroup", Source.COMPOSITE: "CompositePodGroup"}
IN_A_CLAIM: Final = "ask for topology in the PlacementConfig of a claim"
"""The remedy for levels of groups that cannot be met."""

_Key = tuple[Source, str]
_Chain = Sequence[tuple[str, Sequence[Level]]]
"""The groups that a task is in, outermost first, each with its name and levels."""


def nested_levels(chains: Mapping[str, _Chain]) -> tuple[Level, ...] | str:
    """The levels of a gang of groups, outermost first; why there is no such order if there is none.

    A level that an outer group requires, too, holds anyway. A preferred level lies inside those that the groups around
    it require, and is no bound for others.

    Args:
        chains: of each task.
    """
    groups: dict[Level, dict[str, str]] = {}
    around: dict[Level, set[Level]] = {}
    for task, chain in chains.items():
        seen, required = list[Level](), list[Level]()
        for name, levels in chain:
            for level in levels:
                if level.key in {one.key for one in required} or task in groups.get(level, ()):
                    continue
                groups.setdefault(level, {})[task] = name
                same_key = [one for one in seen if one.key == level.key]
                around.setdefault(level, set()).update([*required, *same_key])
                seen.append(level)
                if level.required:
                    required.append(level)
    ordered, sorter = list[Level](), TopologicalSorter(around)
    try:
        sorter.prepare()
    except CycleError as error:
        keys = sorted({level.key for level in error.args[1]})
        return f"{first_of(keys, _MOST_NAMED)}: groups name them in different orders"
    while sorter.is_active():
        ready = sorter.get_ready()
        if len(ready) > 1:
            keys = sorted({level.key for level in ready})
            return f"{first_of(keys, _MOST_NAMED)}: nothing says which of them lies inside the other"
        ordered += ready
        sorter.done(*ready)
    return tuple([_of_groups(level, groups[level], len(chains)) for level in ordered])


def _of_groups(level: Level, groups: Mapping[str, str], tasks: int) -> Level:
    """The level for these groups of tasks; for the whole gang if all tasks are in one."""
    whole = len(groups) == tasks and len(set(groups.values())) == 1
    return level if whole else replace(level, task_groups=frozenset(groups.items()))


@dataclass(frozen=True, slots=True)
class NestedGang:
    """What a tree of groups says about the gang of all its pods.

    Attributes:
        name: of the gang.
        root: the root of the tree, as ``namespace/name``; the group that is missing, if one is.
        uid: of the root; "" if it is not known.
        quorum: what has to exist before the gang starts; None if that is not known.
        minimum: fewest members with which the quorum is met; None without one.
        groups: the tasks that count for the quorum.
        levels: None if no group asks for any.
        faults: why the gang cannot start.
        level_faults: faults of ``levels``.
    """

    name: str
    root: str
    uid: str = ""
    quorum: Quorum | None = None
    minimum: int | None = None
    groups: tuple[str, ...] = ()
    levels: tuple[Level, ...] | None = None
    faults: tuple[Fault, ...] = ()
    level_faults: tuple[Fault, ...] = ()


class NestedGroups:
    """The groups of ``scheduling.k8s.io`` by key (``namespace/name``), as the trees that they form."""

    def __init__(self) -> None:
        self._groups: dict[_Key, Group] = {}
        self._inside: dict[str, dict[_Key, None]] = {}
        """The groups that name a CompositePodGroup, by its key."""
        self._gangs: dict[str, NestedGang] = {}
        """Results for trees that have not changed since, by their root."""

    def set_group(self, source: Source, key: str, group: Group | None) -> Collection[str]:
        """Add, replace or remove a group. Returns the PodGroups for whose pods that matters: those of its tree.

        In a tree with too many groups, nothing about the others changes.
        """
        one = source, key
        root = self._root(one)
        affected = {*self._pod_groups_below(one), *self._pod_groups_below((Source.COMPOSITE, root))}
        self._forget_result(one)
        before = self._groups.pop(one, None)
        if before is not None and (inside := self._inside.get(before.parent)):
            inside.pop(one, None)
            if not inside:
                del self._inside[before.parent]
        if group is not None:
            self._groups[one] = group
            if group.parent:
                self._inside.setdefault(group.parent, {})[one] = None
        self._forget_result(one)
        # The tree that it was in, and the one that it is in now.
        for around in {root, self._root(one)}:
            affected.update(self._pod_groups_below((Source.COMPOSITE, around)))
        return affected

    def gang_of(self, pod_group: str) -> NestedGang | None:
        """The gang of the pods of a PodGroup; None if it names no CompositePodGroup."""
        group = self._groups.get((Source.POD_GROUP, pod_group))
        if group is None or not group.parent:
            return None
        root = self._root((Source.POD_GROUP, pod_group))
        if not root:
            text = f"has more than {MOST_DEEP - 1} groups inside or around it, or they are in a circle; use fewer"
            return _broken(group.parent, text)
        if (gang := self._gangs.get(root)) is not None:
            return gang
        every = sum(1 for _ in self._below((Source.COMPOSITE, root)))
        if every > MOST_GROUPS:
            # Named after the group that is next to it: whatever becomes of the others, nothing is told (``put``).
            return _broken(group.parent, f"is in a tree of more than {MOST_GROUPS} groups; make several of it")
        if (Source.COMPOSITE, root) not in self._groups:
            text = (
                "does not exist, or this program may not read it; create it, or have an operator let this program list "
                "and watch compositepodgroups.scheduling.k8s.io"
            )
            return _broken(root, text)
        gang = self._gangs[root] = self._gang(root)
        return gang

    def _gang(self, root: str) -> NestedGang:
        name = f"{_KINDS[Source.COMPOSITE]}/{root.partition('/')[2]}"
        uid, chains = self._groups[Source.COMPOSITE, root].uid, dict[str, _Chain]()
        quorum = self._quorum((Source.COMPOSITE, root), (), chains)
        # Each member asks for all of it, so what takes as long as there are groups is done once.
        found = NestedGang(name, root, uid, quorum, minimum=quorum.fewest, groups=tuple(chains))
        levels = nested_levels(chains)
        if isinstance(levels, tuple):
            return replace(found, levels=levels or None)
        field = f"{_named((Source.COMPOSITE, root))}: spec.schedulingConstraints.topology"
        remedy = f"let it ask for the widest of them, too, or {IN_A_CLAIM}"
        return replace(found, level_faults=(Fault(field, f"{levels}; {remedy}"),))

    def _quorum(self, one: _Key, around: _Chain, chains: dict[str, _Chain]) -> Quorum:
        """What has to be there of a group; its PodGroups are entered in ``chains``."""
        group, name = self._groups[one], _named(one)
        chain = (*around, (name, group.levels or ()))
        # As kube-scheduler counts: one member or group is enough where the policy is ``basic``.
        minimum = max(1, group.minimum or 1)
        if one[0] is Source.POD_GROUP:
            task = one[1].partition("/")[2]
            chains[task] = chain
            return Quorum(name, minimum, task)
        inside = self._inside.get(one[1], ()) if len(chain) < MOST_DEEP else ()
        return Quorum(name, minimum, groups=tuple([self._quorum(child, chain, chains) for child in sorted(inside)]))

    def _root(self, one: _Key) -> str:
        """The key of the CompositePodGroup around all others, which may not be known; "" if there is none.

        There is none for a PodGroup that names no other group, and in a circle or a tree that is too deep.
        """
        root = one[1] if one[0] is Source.COMPOSITE else ""
        for _ in range(MOST_DEEP):
            group = self._groups.get(one)
            if group is None or not group.parent:
                return root
            root = group.parent
            one = Source.COMPOSITE, root
        return ""

    def _below(self, one: _Key, depth: int = MOST_DEEP) -> Iterator[_Key]:
        """The group and all inside it, at most one more than a tree may have."""
        level, count = [one], 0
        for _ in range(depth):
            following: list[_Key] = []
            for found in level:
                count += 1
                yield found
                if count > MOST_GROUPS:
                    return
                if found[0] is Source.COMPOSITE:
                    following += islice(self._inside.get(found[1], ()), MOST_GROUPS)
            level = following

    def _pod_groups_below(self, one: _Key) -> Sequence[str]:
        """The PodGroups that the group is or has inside it; none if there are too many."""
        every = [*self._below(one)]
        return [key for source, key in every if source is Source.POD_GROUP] if len(every) <= MOST_GROUPS else ()

    def _forget_result(self, one: _Key) -> None:
        self._gangs.pop(self._root(one), None)


def _broken(composite: str, text: str) -> NestedGang:
    """A gang that cannot start, because of a group that its PodGroups name: all of them say the same."""
    name = f"{_KINDS[Source.COMPOSITE]}/{composite.partition('/')[2]}"
    return NestedGang(name, composite, faults=(Fault(_named((Source.COMPOSITE, composite)), text),))


def _named(one: _Key) -> str:
    return f"{_KINDS[one[0]]} {one[1]}"
