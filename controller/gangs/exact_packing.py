"""Packs units into the nodes of one domain by exact search, with backtracking.

How it works. Units of one shape and group that may equally be left out are one *batch*. They are counted, not permuted:
the search chooses a number of them for each node. On top of one choice stands the next one:

1. which sub-groups become whole (``SubGroupChoices``);
2. which batch is next, the hardest first;
3. for each level with groups, which domain the batch's group is in;
4. how many units of the batch go to the first node, the second one, and so on; as many as possible are tried first;
5. at the end of a batch, how many of its units are left out, if that leaves enough members.

If nothing is left to try, the choice below it is changed. Two nodes with 4 and 3 free cards, a gang of one member with
3 cards (A) and two with 2 cards (B, B). A is harder, since the nodes take at most 2 of it, and 3 of B:

    A on the first node -> 1 and 3 cards are left, which take 1 of B: too few, without trying any node
    A on the second one -> 4 and 0 cards are left
        2 of B on the first node -> all are placed: done

What bounds it. A branch ends as soon as the units that the further nodes can take (``RemainingUnits``) are too few for
the batch; a ``StepBudget`` counts the placements that fail or are undone. Choices are generators on a stack of the
search's own, so any depth is possible, and a search that ran out of steps goes on later where it ended.

Why it is exact. Every choice is tried unless another one that is tried succeeds if it does: units of a batch are alike,
bounds are never too low, units of a node get their devices together (``Staging``), and the last batch takes greedily
only where nothing else could need what it takes. ``test_laws``, ``test_laws_of_groups``, ``test_laws_of_sub_groups``,
``test_laws_of_launchers``, ``test_laws_of_parts`` and ``test_laws_of_shared_devices`` compare the answers with trying
every assignment; ``test_worked_example`` follows the example.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from controller.allocation import NodeDeviceCounts, OutOfSteps
from controller.gangs.bounds import RemainingUnits, UnitBounds, best_fit
from controller.gangs.levels import EnforcedLevels, GroupDomains, GroupKey, GroupLevel, GroupNumber, WiderDomain
from controller.gangs.staging import Staging
from controller.gangs.sub_groups import MayLeaveOut, RequiredGroups, SubGroupCandidate, SubGroupChoices
from controller.gangs.topology import DomainNode, DomainNodes, Path, by_path
from controller.gangs.units import CoLocatedMembers, MemberPosition, UnitShape

_Choices = Iterator["_Choices | None"]
"""One choice after another; each is what has to be chosen on top of it, None if everything is chosen."""


class StepBudget:
    """A limit on the placements of a search that fail or are undone."""

    def __init__(self, steps: int):
        self.left = steps

    def part(self, divisor: int) -> "StepBudget":
        """Split off a part of the steps that are left: one in ``divisor``."""
        steps = self.left // divisor
        self.left -= steps
        return StepBudget(steps)

    def spend(self) -> None:
        """Count a step."""
        self.left -= 1

    @property
    def is_overdrawn(self) -> bool:
        """Whether more steps were counted than there were."""
        return self.left < 0


@dataclass(frozen=True, slots=True)
class SearchContext:
    """The levels that hold in one attempt, and the nodes, their bounds and devices: the same for all domains.

    Attributes:
        devices: devices of each node, if units of several shapes compete for them; else None.
    """

    levels: EnforcedLevels
    domain_nodes: DomainNodes
    bounds: UnitBounds
    devices: Sequence[NodeDeviceCounts] | None = None


@dataclass(frozen=True, slots=True)
class PackingRules:
    """Rules of one search.

    Attributes:
        most_sub_domains: most sub-domains that may be used; None for any number.
        group_domains: the domains of groups with members that have a place.
        wider: where members without devices may be; None if that is where the others are.
        pair: the leader and rank 0, to be placed close to each other if that is easy.
        leader_first: whether the leader is placed before the others, so that more is free close to it.
    """

    most_sub_domains: int | None
    group_domains: Mapping[GroupKey, Path]
    wider: WiderDomain | None = None
    pair: tuple[CoLocatedMembers, CoLocatedMembers] | None = None
    leader_first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Batch:
    """Units of one shape in the same groups, in the order of ranks.

    Attributes:
        groups: for each level with groups, the groups of a unit: mostly one; none if the level does not hold for it.
        required_groups: the sub-groups that need the units.
    """

    shape: UnitShape
    groups: tuple[tuple[GroupNumber, ...], ...]
    required_groups: RequiredGroups
    units: tuple[CoLocatedMembers, ...]


class _Order(NamedTuple):
    """Nodes in an order, and the most units on the nodes from each position on."""

    nodes: Sequence[int]
    most_units: Sequence[int]


class Packing:
    """Packs units into the nodes of a domain.

    Args:
        sub_groups: chooses sub-groups, and with them the members that may be left out.
        inside: the nodes of the domain.
    """

    def __init__(
        self,
        units: Sequence[CoLocatedMembers],
        sub_groups: SubGroupChoices,
        context: SearchContext,
        inside: Sequence[int],
        staging: Staging,
        rules: PackingRules,
    ):
        domain_nodes, levels, wider, pair = context.domain_nodes, context.levels.of_groups, rules.wider, rules.pair
        self._domain_nodes = domain_nodes
        self._inside = inside
        self._bounds = context.bounds
        self._levels = levels
        self._staging = staging
        self._budget = StepBudget(0)
        self._sub_groups = sub_groups
        self._may_leave_out = MayLeaveOut(0, {}, {})
        self._group_domains: GroupDomains = dict(rules.group_domains)
        self._wider = wider
        self._in_domain = frozenset(inside) if wider else frozenset[int]()
        self._pair = pair
        self._first = pair[0] if pair and rules.leader_first else None
        self._sub_domain_depth = context.levels.depth + 1
        self._most_sub_domains = rules.most_sub_domains
        # Counted, not a set: a sub-domain is in use until the last addition to it is taken back.
        self._units_in: dict[Path, int] = {}
        """Number of additions in each sub-domain that is in use."""
        self._depends_on_members = any(unit.shape.depends_on_members for unit in units)
        self._greedy_at_end = (
            not self._depends_on_members
            and not staging.tells_apart
            and not (staging.shares_devices and any(map(_combines, units)))
        )
        """Whether as many of the last units as possible on one node never keeps one of them from another node."""
        self._ordered = any(unit.shape.ordered for unit in units)
        self._remaining = RemainingUnits(context.bounds, context.devices)
        self._domains_at = {
            depth: by_path([domain_nodes[node] for node in inside], depth)
            for depth in {level.depth for level in levels}
        }
        self._units = units
        self._units_of_group: Counter[GroupKey] | None = None
        """Number of units of each group of a level; None until it is needed."""
        self._choices: list[_Choices] = [self._choose_sub_groups()]

    def run(self, budget: StepBudget) -> bool:
        """Add enough units to nodes; False, with none on nodes, if there is no way.

        A search that ran out of steps continues where it ended. The budget is checked between two choices only, so each
        run makes progress.

        Raises:
            OutOfSteps: the budget ran out; units may be on nodes.
        """
        self._budget = budget
        while self._choices:
            if budget.is_overdrawn:
                raise OutOfSteps
            # A generator that goes on after a ``yield`` takes back what it did before it. So each is asked again only
            # when all that stood on top of it has ended, and has taken back its own.
            try:
                following = next(self._choices[-1])
            except StopIteration:
                self._choices.pop()
                continue
            if following is None:
                return True
            self._choices.append(following)
        return False

    def _batched(self, units: Sequence[CoLocatedMembers]) -> tuple[_Batch, ...]:
        """Batch the units, hard ones first. Units whose order matters stay single, in the order of ranks."""
        alike: dict[object, list[CoLocatedMembers]] = {}
        for unit in units:
            required = self._may_leave_out.required_groups(unit)
            key = unit if self._ordered else (unit.shape, self._groups_of(unit), required)
            alike.setdefault(key, []).append(unit)
        batches = [
            _Batch(
                batch[0].shape, self._groups_of(batch[0]), self._may_leave_out.required_groups(batch[0]), tuple(batch)
            )
            for batch in alike.values()
        ]
        if not self._ordered:
            shapes = {unit.shape: None for unit in units}
            # A shape of which only few fit comes first, before others have taken what it needs, and because a search
            # that has no way finds that out sooner so.
            most = {shape: self._bounds.most_units(shape, self._nodes_for(shape)) for shape in shapes}

            def difficulty(batch: _Batch) -> tuple[Any, ...]:
                is_later = self._first not in batch.units
                return is_later, most[batch.shape], batch.shape.number, batch.groups, batch.required_groups

            batches.sort(key=difficulty)
        return tuple(batches)

    def _groups_of(self, unit: CoLocatedMembers) -> tuple[tuple[GroupNumber, ...], ...]:
        return tuple(
            [
                tuple(sorted({level.group_of(position) for position in self._bound_by(level, unit)} - {()}))
                for level in self._levels
            ]
        )

    def _bound_by(self, level: GroupLevel, unit: CoLocatedMembers) -> Sequence[MemberPosition]:
        """The positions of a unit's members; none if the level does not hold for the unit."""
        holds = self._wider is None or unit.shape.has_devices or level.depth <= self._wider.depth
        return unit.positions if holds else ()

    def _keys_of(self, unit: CoLocatedMembers) -> Iterator[GroupKey]:
        """The groups of the unit, each as the depth of the level and a number."""
        for level, groups in zip(self._levels, self._groups_of(unit), strict=True):
            yield from [(level.depth, group) for group in groups]

    def _may_be_outside(self, shape: UnitShape) -> bool:
        """Whether units of the shape may be outside the domain."""
        return self._wider is not None and not shape.has_devices

    def _nodes_for(self, shape: UnitShape) -> Sequence[int]:
        """The nodes for units of the shape."""
        return self._wider.inside if self._wider is not None and not shape.has_devices else self._inside

    # The search. Each generator makes one choice after another, and yields what has to be decided on top of it.

    def _choose_sub_groups(self) -> _Choices:
        """Choose the sub-groups that become whole."""
        # All sub-groups are asked about before a unit is on a node, so what there is for a shape stays the same.
        most_units = cache(lambda shape: self._bounds.most_units(shape, self._nodes_for(shape)))
        for choice in self._sub_groups.choices(
            self._alike,
            lambda candidate: _may_fit(candidate, most_units),
            lambda unit: (unit.shape, self._groups_of(unit)),
        ):
            if choice is None:
                # Lets ``run`` check the budget.
                yield iter(())
            else:
                self._may_leave_out = choice.may_leave_out
                yield self._choose_batch(self._batched(choice.units))
            self._budget.spend()

    def _alike(self, candidate: SubGroupCandidate) -> Hashable:
        """A key that is equal for sub-groups of which either can stand in for the other.

        They ask for the same, and share groups only among their own members, in the same pattern.
        """
        if self._units_of_group is None:
            self._units_of_group = Counter(key for unit in self._units for key in self._keys_of(unit))
        units_of_group = self._units_of_group
        own = Counter(key for unit in candidate.units for key in self._keys_of(unit))
        # A group with members of others, or with a domain already, makes a sub-group alike to none but itself.
        if any(units_of_group[key] > count or key in self._group_domains for key, count in own.items()):
            return candidate
        # Groups are numbered in the order in which they come up: 7, 7, 9 and 3, 3, 4 are one pattern, 0, 0, 1.
        numbers: dict[object, int] = {}
        pattern = [
            (unit.shape.number, *(numbers.setdefault(key, len(numbers)) for key in self._keys_of(unit)))
            for unit in sorted(candidate.units, key=lambda unit: (unit.shape.number, unit.order))
        ]
        return candidate.name[0], candidate.missing, tuple(pattern)

    def _choose_batch(self, left: tuple[_Batch, ...]) -> _Choices:
        """Choose the next batch; yields None if all units are on nodes."""
        if not left:
            yield None
            return
        # What is on the nodes does not depend on the order of batches, so one order is enough. With affinity or spread
        # among the members it does: who comes first decides where the others may go.
        tried: set[object] = set()
        for number, batch in enumerate(left if self._ordered else left[:1]):
            if (key := (batch.shape, batch.groups, batch.required_groups)) not in tried:
                tried.add(key)
                yield self._choose_domains(batch, (*left[:number], *left[number + 1 :]), 0, ())
        # Only the first one: those that are left out at all may just as well be left out after the others are placed,
        # and then each of them is the first one in its turn.
        batch = left[0]
        yield from self._leave_out(batch, len(batch.units), left[1:])

    def _choose_domains(self, batch: _Batch, rest: tuple[_Batch, ...], level: int, path: Path) -> _Choices:
        """Choose the domains for the groups of the batch."""
        if level == len(self._levels):
            inside = self._domains_at[len(path)][path] if path else self._nodes_for(batch.shape)
            nodes = self._ordered_nodes(batch, inside)
            order = _Order(nodes, self._remaining.most_from_each(batch.shape, nodes))
            yield self._choose_nodes(batch, rest, order, 0, 0)
            return
        if not batch.groups[level]:
            yield self._choose_domains(batch, rest, level + 1, path)
            return
        depth = self._levels[level].depth
        keys = [(depth, group) for group in batch.groups[level]]
        domains = {self._group_domains[key] for key in keys if key in self._group_domains}
        # Who shares a claim is on one node, and with that the groups of all who share it.
        new = [key for key in keys if key not in self._group_domains]
        options = (
            self._ordered_domains(batch, rest, path, depth) if not domains else domains if len(domains) == 1 else ()
        )
        for option in options:
            # A domain that was chosen earlier may not be part of this one, or may have no node: a path of "" stands
            # for members that are in no domain (``Searches._find_group_domains``).
            if option[: len(path)] == path and option in self._domains_at[depth]:
                self._group_domains.update(dict.fromkeys(new, option))
                yield self._choose_domains(batch, rest, level + 1, option)
                for key in new:
                    del self._group_domains[key]

    def _ordered_domains(self, batch: _Batch, rest: tuple[_Batch, ...], path: Path, depth: int) -> Sequence[Path]:
        """Order the domains of a level for a group: the tightest with enough capacity, then the others.

        If the number of sub-domains is limited, those in use come first, and then, unless this is the last batch, the
        largest.
        """
        wanted = len(batch.units)
        least = wanted - self._may_leave_out.most_units(batch.shape, batch.required_groups)
        capacities = {
            option: self._remaining.most_units(batch.shape, inside)
            for option, inside in self._domains_at[depth].items()
            if option[: len(path)] == path
        }
        # At least one unit: to place none of the batch is ``_choose_batch``'s choice, so it is tried only once.
        possible = [option for option, capacity in capacities.items() if capacity >= max(least, 1)]
        possible.sort(key=lambda option: (capacities[option] < wanted, capacities[option], option))
        if self._most_sub_domains is not None:
            in_sub_domain = Counter[Path]()
            for option in possible if rest else ():
                in_sub_domain[option[: self._sub_domain_depth]] += capacities[option]
            sub_domains = {option: option[: self._sub_domain_depth] for option in possible}
            possible.sort(
                key=lambda option: (sub_domains[option] not in self._units_in, -in_sub_domain[sub_domains[option]])
            )
        return possible

    def _choose_nodes(self, batch: _Batch, rest: tuple[_Batch, ...], order: _Order, start: int, done: int) -> _Choices:
        """Choose nodes for the units from number ``done`` on, from position ``start`` of the order on."""
        left = len(batch.units) - done
        if not left:
            yield self._choose_batch(rest)
            return
        at, nodes = start, order.nodes
        # Only nodes from here on are tried: 2 units on the first node and 1 on the third is found once, not again as 1
        # on the third and 2 on the first.
        while at < len(nodes) and order.most_units[at] >= left - self._may_leave_out.most_units(
            batch.shape, batch.required_groups
        ):
            node = nodes[at]
            at += 1
            sub_domain = self._counted_sub_domain(batch, node)
            is_new = sub_domain is not None and sub_domain not in self._units_in
            if is_new and self._most_sub_domains is not None and len(self._units_in) >= self._most_sub_domains:
                continue
            added = self._add_most(batch, node, done)
            if not added:
                continue
            self._count(sub_domain)
            # Then one less, and so on: the node may have what another batch can have nowhere else.
            for count in range(added, 0, -1):
                if count < added and not self._add(batch, node, done, count):
                    continue
                yield self._choose_nodes(batch, rest, order, at, done + count)
                # Asked again: all that was possible on top of this has failed, and is undone.
                self._staging.remove_last(node)
                self._remaining.add(batch.shape, node, -count)
                self._budget.spend()
                if not rest and self._greedy_at_end:
                    break
            self._uncount(sub_domain)
            if not rest and self._greedy_at_end:
                # Nothing else needs the node, so to use it less cannot help; to use another sub-domain can.
                if not is_new or self._most_sub_domains is None:
                    break
                while at < len(nodes) and self._sub_domain(nodes[at]) == sub_domain:
                    at += 1
        if done:
            yield from self._leave_out(batch, left, rest)

    def _leave_out(self, batch: _Batch, count: int, rest: tuple[_Batch, ...]) -> _Choices:
        """Continue without ``count`` units of the batch, if that leaves enough members."""
        if count <= self._may_leave_out.most_units(batch.shape, batch.required_groups):
            self._may_leave_out.leave_out(batch.shape, batch.required_groups, count)
            yield self._choose_batch(rest)
            self._may_leave_out.leave_out(batch.shape, batch.required_groups, -count)

    def _add_most(self, batch: _Batch, node: int, done: int) -> int:
        """Add as many units as the node takes; returns how many."""
        for count in range(min(self._remaining.by_node(batch.shape)[node], len(batch.units) - done), 0, -1):
            if self._add(batch, node, done, count):
                return count
            if not self._depends_on_members and self._staging.is_alone(node):
                # Whatever else is where, the node does not take so many. The search knows it from now on, and so do
                # the searches after it, and what is said of the domain.
                self._bounds.lower(batch.shape, node, count - 1, for_devices=self._staging.lacked_devices)
                self._remaining.lower(batch.shape, node, count - 1)
        return 0

    def _add(self, batch: _Batch, node: int, done: int, count: int) -> bool:
        if self._staging.add(node, batch.units[done : done + count]):
            self._remaining.add(batch.shape, node, count)
            return True
        self._budget.spend()
        return False

    @property
    def sub_domains(self) -> int:
        """Number of sub-domains in use."""
        return len(self._units_in)

    def _sub_domain(self, node: int) -> Path:
        return self._domain_nodes[node].below[: self._sub_domain_depth]

    def _counted_sub_domain(self, batch: _Batch, node: int) -> Path | None:
        """The sub-domain that counts as used; None for units that may be outside the domain."""
        return None if self._may_be_outside(batch.shape) else self._sub_domain(node)

    def _count(self, sub_domain: Path | None) -> None:
        if sub_domain is not None:
            self._units_in[sub_domain] = self._units_in.get(sub_domain, 0) + 1

    def _uncount(self, sub_domain: Path | None) -> None:
        if sub_domain is not None:
            self._units_in[sub_domain] -= 1
            if not self._units_in[sub_domain]:
                del self._units_in[sub_domain]

    # The order of nodes: it never changes what is possible, only what is found first.

    def _ordered_nodes(self, batch: _Batch, inside: Sequence[int]) -> Sequence[int]:
        """Best-fit order of the nodes, grouped by sub-domain. Nodes to try last are at the end."""
        remaining = self._remaining.by_node(batch.shape)
        last = {name: number for pod in batch.shape.pods for number, name in enumerate(pod.last, 1)}
        usable = [node for node in inside if remaining[node]]
        by_sub_domain: dict[Path, list[int]] = {}
        for node in usable:
            by_sub_domain.setdefault(self._sub_domain(node), []).append(node)
        capacities = {path: self._remaining.most_units(batch.shape, nodes) for path, nodes in by_sub_domain.items()}
        ordered: list[int] = []
        left = len(batch.units)
        for path in best_fit(capacities, left):
            ordered += best_fit({node: remaining[node] for node in by_sub_domain[path]}, left)
            left = max(0, left - capacities[path])
        # Each sort keeps the order of equals, so the last one weighs most.
        if self._may_be_outside(batch.shape):
            ordered.sort(key=lambda node: node not in self._in_domain)
        if partner := self._node_of_partner(batch):
            ordered.sort(key=lambda node: self._distance(self._domain_nodes[node], partner))
        if any(pod.needs.spread for pod in batch.shape.pods):
            ordered.sort(key=lambda node: len(self._staging.units_on(node)))
        if last:
            ordered.sort(key=lambda node: last.get(self._domain_nodes[node].name, 0))
        return ordered

    def _node_of_partner(self, batch: _Batch) -> DomainNode | None:
        """The node that a unit of the batch should be close to: of rank 0 for the leader, and vice versa."""
        for unit, partner in (self._pair, self._pair[::-1]) if self._pair else ():
            if unit in batch.units:
                return self._staging.node_of(partner)
        return None

    def _distance(self, node: DomainNode, other: DomainNode) -> int:
        """Distance of two nodes: 0 for the same, and the smaller, the smaller the domain that both share."""
        same = [value == of_other for value, of_other in zip(node.below, other.below, strict=False)]
        return 0 if node.name == other.name else 1 + len(same) - (same.index(False) if False in same else len(same))


def _may_fit(candidate: SubGroupCandidate, most_units: Callable[[UnitShape], int]) -> bool:
    """Whether there may be enough free for the sub-group, shape by shape, if nothing else is placed."""
    shapes, spare = Counter(unit.shape for unit in candidate.units), candidate.spare
    return all(most_units(shape) >= units - spare for shape, units in shapes.items())


def _combines(unit: CoLocatedMembers) -> bool:
    """Whether the unit needs several devices at once, so that a greedy choice can block the next unit."""
    return any(
        request.total_devices > 1 or not request.single_choice
        for request in (unit.shape.request, unit.shape.other_drivers_request)
    )
