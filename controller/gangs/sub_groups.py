"""Chooses the sub-groups to place: each becomes whole, or none of its members is placed. Pure.

One choice of sub-groups after another is searched for, each with the fewest sub-groups that are enough. Of sub-groups
that are alike, only the number is chosen.

Example: a gang with ``minimum: 4`` and four sub-groups of two members, of which one has to be whole. Three of them
(a, b, c) ask for the same, d asks for more. Four members are two sub-groups, so the choices are: two of {a, b, c}; one
of these and d. That a and b rather than a and c are chosen makes no difference, so 2 choices stand for 6.
``test_laws_of_sub_groups`` compares what comes of it with trying every assignment.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controller.gangs.gang import Gang, Member, SubGroup
from controller.gangs.units import CoLocatedMembers, UnitShape, claims_of

RequiredGroups = tuple[SubGroup, ...]
"""The sub-groups of a unit that have to become whole."""
_EVERY_MEMBER: Final[SubGroup] = (-1, "")
"""Stands for all sub-groups that need each of their members."""


class MayLeaveOut:
    """Counts the members that may be left out: in all, of each task with a minimum, and of each sub-group.

    Args:
        of_sub_groups: numbers for the sub-groups that have to become whole. Others may be left out with all members.
    """

    def __init__(self, members: int, of_tasks: Mapping[str, int], of_sub_groups: Mapping[SubGroup, int]):
        self._members = members
        self._of_tasks = dict(of_tasks)
        self._of_sub_groups = {**of_sub_groups, _EVERY_MEMBER: 0}

    @property
    def is_possible(self) -> bool:
        """Whether there are enough members."""
        return min([self._members, *self._of_tasks.values(), *self._of_sub_groups.values()]) >= 0

    def required_groups(self, unit: CoLocatedMembers) -> RequiredGroups:
        """The sub-groups that need the unit. If this is equal for two units, as many of both may be left out."""
        groups = tuple([name for name in unit.sub_groups if name in self._of_sub_groups])
        # Units of which none may be left out are all alike in this, so they get one key, and with that fewer batches.
        return groups if all(self._of_sub_groups[name] for name in groups) else (_EVERY_MEMBER,)

    def most_units(self, shape: UnitShape, groups: RequiredGroups) -> int:
        """Number of units of the shape, of members of these sub-groups, that may be left out."""
        tasks = shape.tasks
        of_tasks = [self._of_tasks[task] // tasks.count(task) for task in tasks if task in self._of_tasks]
        of_sub_groups = [self._of_sub_groups[name] // groups.count(name) for name in groups]
        return min([self._members // len(shape.pods), *of_tasks, *of_sub_groups])

    def leave_out(self, shape: UnitShape, groups: RequiredGroups, units: int) -> None:
        """Leave out ``units`` units; a negative number takes that back."""
        self._members -= units * len(shape.pods)
        for task in shape.tasks:
            if task in self._of_tasks:
                self._of_tasks[task] -= units
        for name in groups:
            self._of_sub_groups[name] -= units


@dataclass(frozen=True, slots=True, eq=False)
class SubGroupCandidate:
    """A sub-group that may become whole.

    Attributes:
        units: units with members of it.
        missing: number of members that it needs to be whole.
        required: whether it has to become whole.
        independent: whether it shares no unit with another sub-group that has to become whole or stay out.
    """

    name: SubGroup
    units: tuple[CoLocatedMembers, ...]
    missing: int
    required: bool
    independent: bool

    @property
    def spare(self) -> int:
        """Number of its members that need not be placed."""
        return sum(unit.sub_groups.count(self.name) for unit in self.units) - self.missing


Chosen = tuple[SubGroupCandidate, ...]


@dataclass(frozen=True, slots=True)
class SubGroupChoice:
    """A choice of sub-groups: the units to place, and what may be left out of them."""

    units: tuple[CoLocatedMembers, ...]
    may_leave_out: MayLeaveOut


class SubGroupChoices:
    """The sub-groups of a gang that may become whole, or have to.

    Args:
        needed: number of members to place, in whatever sub-groups.
        needed_of_tasks: the same for tasks with a minimum.

    Attributes:
        needed: number of members to place, including those that sub-groups need to become whole.
        needed_of_tasks: as given.
    """

    def __init__(self, gang: Gang, units: Sequence[CoLocatedMembers], needed: int, needed_of_tasks: Mapping[str, int]):
        self._units = units
        self.needed_of_tasks = needed_of_tasks
        sizes = [kind.size for kind in gang.sub_groups]
        standing = Counter(member.sub_group for member in gang.standing if member.sub_group is not None)
        counted = standing + Counter(dict(gang.succeeded))
        units_of: dict[SubGroup, list[CoLocatedMembers]] = {}
        for unit in units:
            # A unit whose members share a claim may belong to several sub-groups.
            for name in dict.fromkeys(unit.sub_groups):
                units_of.setdefault(name, []).append(unit)
        missing = {name: sizes[name[0]] - counted[name] for name in units_of}
        # Once the gang has started, a sub-group with members that have a place gets further members one by one.
        self._missing = {
            name: count for name, count in missing.items() if count > 0 and (gang.starts or name not in standing)
        }
        whole = Counter(name[0] for name, count in counted.items() if count >= sizes[name[0]])
        self._required = [kind.minimum - whole[number] for number, kind in enumerate(gang.sub_groups)]
        """For each kind of sub-groups, how many more have to become whole."""
        every = [self._candidate(name, units_of[name], required=name in standing) for name in self._missing]
        self._candidates = [candidate for candidate in every if candidate.spare >= 0]
        gone = gang.starts and any(counted[name] < sizes[name[0]] and name not in units_of for name in standing)
        self._begun_lacks_members = gone or any(candidate.required and candidate.spare < 0 for candidate in every)
        self._smallest = min([candidate.missing for candidate in self._candidates], default=1)
        self.needed = max(needed, self._fewest_members())

    def _candidate(self, name: SubGroup, units: Sequence[CoLocatedMembers], *, required: bool) -> SubGroupCandidate:
        independent = all(self._missing.keys().isdisjoint(set(unit.sub_groups) - {name}) for unit in units)
        return SubGroupCandidate(name, tuple(units), self._missing[name], required, independent)

    @property
    def impossible(self) -> str:
        """The reason why sub-groups cannot become whole, whatever is free; "" for none."""
        for number, required in enumerate(self._required):
            present = sum(candidate.name[0] == number for candidate in self._candidates)
            if present < required:
                return f"only {present} of {required} sub-groups that have to be whole are there to be placed"
        return "members of a sub-group that has begun are missing" if self._begun_lacks_members else ""

    def _fewest_members(self) -> int:
        """Fewest members that the sub-groups that become whole need."""
        # Those that have begun have to be among them, whatever they need; of the others, the smallest would do.
        fewest = 0
        for number, required in enumerate(self._required):
            of_kind = [candidate for candidate in self._candidates if candidate.name[0] == number]
            optional = sorted(candidate.missing for candidate in of_kind if not candidate.required)
            certain = [candidate.missing for candidate in of_kind if candidate.required]
            fewest += sum(certain) + sum(optional[: max(0, required - len(certain))])
        return fewest

    @property
    def required(self) -> int:
        """Number of sub-groups that have to become whole."""
        return sum([max(0, required) for required in self._required])

    def most_complete(self, capacities: Iterable[int]) -> int:
        """Most sub-groups that become whole, if each stays in one of some domains.

        Args:
            capacities: most members in each of the domains.
        """
        return sum([capacity // self._smallest for capacity in capacities])

    def choices(
        self,
        alike: Callable[[SubGroupCandidate], Hashable],
        may_fit: Callable[[SubGroupCandidate], bool],
        shape: Callable[[CoLocatedMembers], Hashable],
    ) -> Iterator[SubGroupChoice | None]:
        """All choices to search for, one after another; None after a step without a choice.

        Args:
            alike: a key that is equal for sub-groups of which either can stand in for the other.
            may_fit: whether there may be enough free for a sub-group.
            shape: a key with the same meaning for units of one sub-group.
        """
        if self.impossible:
            return
        required = tuple([candidate for candidate in self._candidates if candidate.required])
        independent, entangled = dict[Hashable, list[SubGroupCandidate]](), list[list[SubGroupCandidate]]()
        for candidate in self._candidates:
            if candidate.required or not may_fit(candidate):
                continue
            if candidate.independent:
                independent.setdefault(alike(candidate), []).append(candidate)
            else:
                entangled.append([candidate])
        for chosen in self._selections(required, entangled, [*independent.values()]):
            yield None if chosen is None else self._choice((*required, *chosen), shape)

    def _choice(self, chosen: Chosen, shape: Callable[[CoLocatedMembers], Hashable]) -> SubGroupChoice | None:
        left_out = self._missing.keys() - {candidate.name for candidate in chosen}
        units = tuple([unit for unit in self._units if left_out.isdisjoint(unit.sub_groups)])
        enough = sum(candidate.missing for candidate in chosen) >= self.needed
        if chosen and not self.needed_of_tasks and enough:
            # What is placed beyond the needed members must not take what further sub-groups could use: these come in
            # attempts of their own (``FurtherAttempts``), before single members do.
            surplus = {unit for candidate in chosen for unit in _surplus(candidate, shape)}
            names = {candidate.name for candidate in chosen}
            units = tuple([unit for unit in units if unit not in surplus and not names.isdisjoint(unit.sub_groups)])
        members = [member for unit in units for member in unit.members]
        tasks = Counter(member.task for member in members)
        of_tasks = {task: tasks[task] - needed for task, needed in self.needed_of_tasks.items()}
        present = Counter(name for unit in units for name in unit.sub_groups)
        of_sub_groups = {candidate.name: present[candidate.name] - candidate.missing for candidate in chosen}
        may_leave_out = MayLeaveOut(len(members) - self.needed, of_tasks, of_sub_groups)
        return SubGroupChoice(units, may_leave_out) if may_leave_out.is_possible else None

    def _selections(
        self,
        required: Chosen,
        entangled: Sequence[Sequence[SubGroupCandidate]],
        independent: Sequence[Sequence[SubGroupCandidate]],
    ) -> Iterator[Chosen | None]:
        """Choose a number of sub-groups of each class; more than enough only if members may be too few.

        Args:
            entangled: sub-groups that share units, each as a class. Without one of them, another may not become whole.
            independent: classes of sub-groups that are alike.
        """
        # Depth first with a stack of its own, not by recursion, so that there may be any number of classes. What is put
        # last on it is tried first: as many of a class as may be needed.
        classes, kinds = [*entangled, *independent], range(len(self._required))
        # What bounds it: a branch ends when later classes have too few sub-groups of a kind, and of each class no more
        # are chosen than may be needed.
        chosen_of_kind = Counter(candidate.name[0] for candidate in required)
        smallest = [
            min([candidate.missing for candidate in self._candidates if candidate.name[0] == kind], default=0)
            for kind in kinds
        ]
        in_later_classes = [Counter[int]()]
        for members in reversed(classes):
            in_later_classes.append(in_later_classes[-1] + Counter({members[0].name[0]: len(members)}))
        in_later_classes.reverse()
        to_complete = [count - chosen_of_kind[kind] for kind, count in enumerate(self._required)]
        members_to_place = self.needed - sum(candidate.missing for candidate in required)
        stack: list[tuple[int, list[int], int, Chosen]] = [(0, to_complete, members_to_place, ())]
        while stack:
            number, to_complete, members_to_place, chosen = stack.pop()
            enough = max(to_complete, default=0) <= 0 and members_to_place <= 0
            # That enough is chosen ends a choice only after the entangled ones: each of these is either in or out,
            # because the units of one may be what another needs.
            if number == len(classes) or (enough and number >= len(entangled)):
                yield chosen if max(to_complete, default=0) <= 0 else None
                continue
            if any(to_complete[kind] > in_later_classes[number][kind] for kind in kinds):
                yield None
                continue
            candidates = classes[number]
            of_kind = candidates[0].name[0]
            # What other sub-groups that have to become whole bring need not come from these.
            from_these = members_to_place - sum(max(0, to_complete[kind]) * smallest[kind] for kind in kinds)
            most = min(len(candidates), max(0, to_complete[of_kind]) + max(0, -(-from_these // candidates[0].missing)))
            for count in range((most if number >= len(entangled) else 1) + 1):
                left = [needed - count * (kind == of_kind) for kind, needed in enumerate(to_complete)]
                placed = count * candidates[0].missing
                stack.append((number + 1, left, members_to_place - placed, (*chosen, *candidates[:count])))


def _surplus(candidate: SubGroupCandidate, shape: Callable[[CoLocatedMembers], Hashable]) -> Sequence[CoLocatedMembers]:
    """Units beyond those that make a sub-group whole, the last ones, if all of its units are alike."""
    single = candidate.independent and all(len(unit.members) == 1 for unit in candidate.units)
    interchangeable = single and len({shape(unit) for unit in candidate.units}) == 1
    return candidate.units[candidate.missing :] if interchangeable else ()


class FurtherAttempts:
    """Plans the attempts for members beyond the minimum: whole sub-groups, many at once, and then single members.

    If many sub-groups do not fit at once, half as many are tried, so few attempts find about as many as fit.

    Attributes:
        continues: whether another attempt follows although the last one placed nobody.
    """

    def __init__(self) -> None:
        self._kind = 0
        self._count = 0
        """Number of further sub-groups in the next attempt; 0 for all."""
        self.continues = True

    def next_gang(self, gang: Gang) -> Gang:
        """The question of the next attempt."""
        standing = Counter(member.sub_group for member in gang.standing if member.sub_group is not None)
        begun = standing + Counter(dict(gang.succeeded))
        present = begun + Counter(member.sub_group for member in gang.members if member.sub_group is not None)
        while self._kind < len(gang.sub_groups):
            number, kind = self._kind, gang.sub_groups[self._kind]
            possible = [name for name, count in present.items() if name[0] == number and count >= kind.size]
            further = sum(name not in standing for name in possible)
            # They are asked for as if they were needed, so that they are placed together or not at all.
            if further:
                self._count = min(self._count, further) if self._count else further
                whole = sum(count >= kind.size for name, count in begun.items() if name[0] == number)
                wanted = replace(kind, minimum=whole + self._count)
                sub_groups = (*gang.sub_groups[:number], wanted, *gang.sub_groups[number + 1 :])
                return replace(gang, sub_groups=sub_groups)
            self._kind, self._count = number + 1, 0
        return replace(gang, members=_without(gang.members, [name for name in present if name not in standing]))

    def record(self, *, placed: bool) -> None:
        """Say whether the last attempt placed anybody."""
        self.continues = True
        if not placed and self._count > 1:
            self._count //= 2
        elif not placed and self._count:
            self._kind, self._count = self._kind + 1, 0
        elif not placed:
            self.continues = False


def _without(members: Sequence[Member], sub_groups: Collection[SubGroup]) -> tuple[Member, ...]:
    """Members of no such sub-group that share no claim with its members, directly or through others."""
    # Each pass may find a claim that makes an earlier member one of those to leave out, so until nothing changes.
    before, shared, kept = list[Member](), set[str](), list(members)
    while len(before) != len(kept):
        before, kept = kept, []
        for member in before:
            uids = {claim.uid for claim in claims_of(member)}
            if member.sub_group in sub_groups or not shared.isdisjoint(uids):
                shared |= uids
            else:
                kept.append(member)
    return tuple(kept)
