"""Chooses the sub-groups to place: each becomes whole, or none of its members is placed. Pure.

One choice of sub-groups after another is searched for, each with the fewest sub-groups that are enough. Of sub-groups
that are alike, only the number is chosen.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controller.gangs.budget import Slack
from controller.gangs.gang import Gang, Member, SubGroup
from controller.gangs.units import CoLocatedMembers


@dataclass(frozen=True, slots=True, eq=False)
class SubGroupCandidate:
    """A sub-group that may become whole.

    Attributes:
        units: units with members of it.
        lack: number of members that it lacks to be whole.
        must: whether it has to become whole.
        apart: whether it shares no unit with another sub-group that has to become whole or stay out.
    """

    name: SubGroup
    units: tuple[CoLocatedMembers, ...]
    lack: int
    must: bool
    apart: bool

    @property
    def spare(self) -> int:
        """Number of its members that need not be placed."""
        return sum(unit.sub_groups.count(self.name) for unit in self.units) - self.lack


@dataclass(frozen=True, slots=True)
class SubGroupChoice:
    """A choice of sub-groups: the units to place, and the slack for leaving some of them out."""

    units: tuple[CoLocatedMembers, ...]
    slack: Slack


Picked = tuple[SubGroupCandidate, ...]


class Wholes:
    """The sub-groups of a gang that may become whole, or have to.

    Args:
        needed: number of members to place, in whatever sub-groups.
        needed_of_tasks: the same for tasks with a minimum.

    Attributes:
        needed: number of members to place, including those that the sub-groups to become whole need.
        needed_of_tasks: as given.
    """

    def __init__(self, gang: Gang, units: Sequence[CoLocatedMembers], needed: int, needed_of_tasks: Mapping[str, int]):
        self._units = units
        self.needed_of_tasks = needed_of_tasks
        sizes = [one.size for one in gang.sub_groups]
        stand = Counter(one.sub_group for one in gang.standing if one.sub_group is not None)
        there = stand + Counter(dict(gang.succeeded))
        of_sub_group: dict[SubGroup, list[CoLocatedMembers]] = {}
        for unit in units:
            for one in dict.fromkeys(unit.sub_groups):
                of_sub_group.setdefault(one, []).append(unit)
        lacks = {one: sizes[one[0]] - there[one] for one in of_sub_group}
        self._lacks = {one: lack for one, lack in lacks.items() if lack > 0 and (gang.starts or one not in stand)}
        whole = Counter(one[0] for one, count in there.items() if count >= sizes[one[0]])
        self._lacking = [one.minimum - whole[number] for number, one in enumerate(gang.sub_groups)]
        every = [self._candidate(one, of_sub_group[one], must=one in stand) for one in self._lacks]
        self._candidates = [one for one in every if one.spare >= 0]
        stuck = gang.starts and any(there[one] < sizes[one[0]] and one not in of_sub_group for one in stand)
        self._stuck = stuck or any(one.must and one.spare < 0 for one in every)
        self._least = min([one.lack for one in self._candidates], default=1)
        self.needed = max(needed, self._members_of_fewest())

    def _candidate(self, name: SubGroup, units: Sequence[CoLocatedMembers], *, must: bool) -> SubGroupCandidate:
        apart = all(self._lacks.keys().isdisjoint(set(unit.sub_groups) - {name}) for unit in units)
        return SubGroupCandidate(name, tuple(units), self._lacks[name], must, apart)

    @property
    def missing(self) -> str:
        """The reason why sub-groups cannot become whole, even with any amount of room; "" for none."""
        for number, lacking in enumerate(self._lacking):
            there = sum(one.name[0] == number for one in self._candidates)
            if there < lacking:
                return f"only {there} of {lacking} sub-groups that have to be whole are there to be placed"
        return "members of a sub-group that has begun are missing" if self._stuck else ""

    def _members_of_fewest(self) -> int:
        """Fewest members that the sub-groups to become whole need."""
        found = 0
        for number, lacking in enumerate(self._lacking):
            own = [one for one in self._candidates if one.name[0] == number]
            others = sorted(one.lack for one in own if not one.must)
            certain = [one.lack for one in own if one.must]
            found += sum(certain) + sum(others[: max(0, lacking - len(certain))])
        return found

    @property
    def lacking(self) -> int:
        """Number of sub-groups that have to become whole."""
        return sum([max(0, lacking) for lacking in self._lacking])

    def most_in(self, rooms: Iterable[int]) -> int:
        """Most sub-groups that become whole, if each stays in one of some domains.

        Args:
            rooms: most members in each of the domains.
        """
        return sum([room // self._least for room in rooms])

    def choices(
        self,
        alike: Callable[[SubGroupCandidate], Hashable],
        may_fit: Callable[[SubGroupCandidate], bool],
        shape: Callable[[CoLocatedMembers], Hashable],
    ) -> Iterator[SubGroupChoice | None]:
        """All choices to search for, one after another; None after a step without a choice.

        Args:
            alike: a key that is equal for sub-groups of which either can take the place of the other.
            may_fit: whether there may be room for a sub-group.
            shape: a key with the same meaning for units of one sub-group.
        """
        if self.missing:
            return
        chosen = tuple([one for one in self._candidates if one.must])
        apart, others = dict[Hashable, list[SubGroupCandidate]](), list[list[SubGroupCandidate]]()
        for one in self._candidates:
            if one.must or not may_fit(one):
                continue
            if one.apart:
                apart.setdefault(alike(one), []).append(one)
            else:
                others.append([one])
        for picked in self._picks(chosen, others, [*apart.values()]):
            yield None if picked is None else self._choice((*chosen, *picked), shape)

    def _choice(self, chosen: Picked, shape: Callable[[CoLocatedMembers], Hashable]) -> SubGroupChoice | None:
        left_out = self._lacks.keys() - {one.name for one in chosen}
        units = tuple([unit for unit in self._units if left_out.isdisjoint(unit.sub_groups)])
        if chosen and not self.needed_of_tasks and sum(one.lack for one in chosen) >= self.needed:
            # These are enough. What is placed beyond must not take the room of further sub-groups.
            beyond = {unit for one in chosen for unit in _beyond(one, shape)}
            owed = {one.name for one in chosen}
            units = tuple([unit for unit in units if unit not in beyond and not owed.isdisjoint(unit.sub_groups)])
        members = [member for unit in units for member in unit.members]
        tasks = Counter(member.task for member in members)
        of_tasks = {task: tasks[task] - needed for task, needed in self.needed_of_tasks.items()}
        there = Counter(one for unit in units for one in unit.sub_groups)
        of_sub_groups = {one.name: there[one.name] - one.lack for one in chosen}
        slack = Slack(len(members) - self.needed, of_tasks, of_sub_groups)
        return SubGroupChoice(units, slack) if slack.is_possible else None

    def _picks(
        self,
        chosen: Picked,
        others: Sequence[Sequence[SubGroupCandidate]],
        apart: Sequence[Sequence[SubGroupCandidate]],
    ) -> Iterator[Picked | None]:
        """Choose a number of sub-groups of each class; more than enough only if members may be too few.

        Args:
            others: sub-groups that share units, each as a class. Without one of them, another may not become whole.
            apart: classes of sub-groups that are alike.
        """
        classes, numbers = [*others, *apart], range(len(self._lacking))
        of_number = Counter(one.name[0] for one in chosen)
        least = [min([one.lack for one in self._candidates if one.name[0] == at], default=0) for at in numbers]
        rest = [Counter[int]()]
        for some in reversed(classes):
            rest.append(rest[-1] + Counter({some[0].name[0]: len(some)}))
        rest.reverse()
        lacking = [count - of_number[number] for number, count in enumerate(self._lacking)]
        stack: list[tuple[int, list[int], int, Picked]] = []
        stack.append((0, lacking, self.needed - sum(one.lack for one in chosen), ()))
        while stack:
            at, lacking, left, picked = stack.pop()
            enough = max(lacking, default=0) <= 0 and left <= 0
            if at == len(classes) or (enough and at >= len(others)):
                yield picked if max(lacking, default=0) <= 0 else None
                continue
            if any(lacking[number] > rest[at][number] for number in numbers):
                yield None
                continue
            some = classes[at]
            own = some[0].name[0]
            # What other sub-groups that are lacking bring need not come from these.
            beyond = left - sum(max(0, lacking[number]) * least[number] for number in numbers)
            most = min(len(some), max(0, lacking[own]) + max(0, -(-beyond // some[0].lack)))
            for count in range((most if at >= len(others) else 1) + 1):
                after = [one - count * (number == own) for number, one in enumerate(lacking)]
                stack.append((at + 1, after, left - count * some[0].lack, (*picked, *some[:count])))


def _beyond(one: SubGroupCandidate, shape: Callable[[CoLocatedMembers], Hashable]) -> Sequence[CoLocatedMembers]:
    """Units beyond those that make a sub-group whole, the last ones, if all of its units are alike."""
    single = one.apart and all(len(unit.members) == 1 for unit in one.units)
    return one.units[one.lack :] if single and len({shape(unit) for unit in one.units}) == 1 else ()


class Growth:
    """Plans the attempts for members beyond the minimum: whole sub-groups, many at once, and then single members.

    Attributes:
        goes_on: whether another attempt follows although the last one found nothing.
    """

    def __init__(self) -> None:
        self._number = 0
        self._count = 0
        """Number of further sub-groups in the next attempt; 0 for all."""
        self.goes_on = True

    def next_of(self, gang: Gang) -> Gang:
        """The question of the next attempt."""
        stand = Counter(one.sub_group for one in gang.standing if one.sub_group is not None)
        begun = stand + Counter(dict(gang.succeeded))
        there = begun + Counter(one.sub_group for one in gang.members if one.sub_group is not None)
        while self._number < len(gang.sub_groups):
            number, asked = self._number, gang.sub_groups[self._number]
            complete = [one for one, count in there.items() if one[0] == number and count >= asked.size]
            more = sum(one not in stand for one in complete)
            if more:
                self._count = min(self._count, more) if self._count else more
                whole = sum(count >= asked.size for one, count in begun.items() if one[0] == number)
                wanted = replace(asked, minimum=whole + self._count)
                sub_groups = (*gang.sub_groups[:number], wanted, *gang.sub_groups[number + 1 :])
                return replace(gang, sub_groups=sub_groups)
            self._number, self._count = number + 1, 0
        return replace(gang, members=_without(gang.members, [one for one in there if one not in stand]))

    def note(self, *, found: bool) -> None:
        """Note whether the last attempt found anything."""
        self.goes_on = True
        if not found and self._count > 1:
            self._count //= 2
        elif not found and self._count:
            self._number, self._count = self._number + 1, 0
        elif not found:
            self.goes_on = False


def _without(members: Sequence[Member], sub_groups: Collection[SubGroup]) -> tuple[Member, ...]:
    """Members of no such sub-group that share no claim with its members, directly or through others."""
    left, shared, found = list[Member](), set[str](), list(members)
    while len(left) != len(found):
        left, found = found, []
        for one in left:
            uids = {claim.uid for claim in (*one.demand.claims, *one.demand.other_drivers_claims)}
            if one.sub_group in sub_groups or not shared.isdisjoint(uids):
                shared |= uids
            else:
                found.append(one)
    return tuple(found)
