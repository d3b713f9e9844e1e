"""Claims that ask for the same: understood once, and what has been found out for one of them holds for all."""

import json
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controller.allocation.policies.preference import FIRST_FIT
from controller.allocation.requests.demand import Choice, ClaimFault, Demand, demands
from controller.allocation.stock.matching import Filter, Matching, Paths
from controller.allocation.stock.supply import Seat, Supply
from driver.model import Claim, ClaimSpec, Constraint, DeviceClass, OpaqueConfig, Request, Want
from driver.names import Names

_MOST_SHAPES: Final = 1024
_MOST_SPECS: Final = 4096
_MOST_STATES: Final = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One way to satisfy one request, ready to be tried."""

    choice: Choice
    want: Want
    filter: Filter
    paths: Paths
    count: int
    """Devices it takes at least."""
    alike: tuple[str, ...]
    """Attributes in which all its devices must agree."""


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Requests of one claim, each with only one way to satisfy it, all devices of which must agree in an attribute."""

    attribute: str
    steps: tuple[int, ...]


class Shape:
    """What the claims of a pod ask for, and what is known about nodes that were asked for it.

    Attributes:
        demands: one per request, in order.
        steps: per demand, the ways to satisfy it.
        plain: whether it can be tried with masks: no policy, no admin access, no request for all devices.
        lone: whether each request has one way to satisfy it.
        alike: its constraints of the kind matchAttribute, as far as requests with one way are concerned.
        apart: requests with a constraint of their own, where several have one on the same attribute.
        attributes: all that its constraints look at.
        least: devices one of its requests needs at once of those that are available; 0 if none needs any.
        total: devices all its requests need together where none can be shared.
        refused: nodes that cannot take it unless something is given back there.
        doubtful: nodes that did not take it, with their clock, where any change may make them.
        states: what is known of nodes by their state: how often they can take it.
    """

    def __init__(self, wanted: Sequence[Demand], specs: Sequence[ClaimSpec], matching: Matching):
        self.demands = tuple(wanted)
        self.steps = tuple(
            [tuple([_step(choice, specs[demand.claim], matching) for choice in demand.choices]) for demand in wanted]
        )
        every = [step for steps in self.steps for step in steps]
        self.lone = all(len(steps) == 1 for steps in self.steps)
        self.plain = all(_plain(step.choice) for step in every)
        self.distinct = any(one.distinct_attribute for spec in specs for one in spec.constraints)
        self.attributes = tuple(
            dict.fromkeys(one.match_attribute or one.distinct_attribute for spec in specs for one in spec.constraints)
        )
        self.alike = tuple(_alike(self.demands, specs))
        self.apart = tuple(_apart(self.alike))
        needed = [min(_needed(step) for step in steps) for steps in self.steps]
        self.least = max(needed, default=0)
        self.total = sum(needed)
        self.refused = 0
        self.doubtful: dict[Seat, tuple[int, int]] = {}
        self.states: dict[Hashable, int] = {}
        self.reach = 0
        """Nodes whose devices match in sufficient number, in use or not."""
        self.reach_of: Hashable = None
        """What ``reach`` was found for."""
        self._time = self._numbering = 0

    def catch_up(self, supply: Supply) -> None:
        """Forget refusals of nodes that have been given something back since."""
        if self._numbering != supply.numbering:
            self.refused = supply.moved(self.refused, self._numbering)
            self._numbering = supply.numbering
        if self._time != supply.time:
            if self.refused:
                self.refused &= ~supply.freed_since(self._time)
            self._time = supply.time

    def note_doubt(self, seat: Seat, clock: tuple[int, int]) -> None:
        """The node did not take it at that time of its clock."""
        if len(self.doubtful) >= _MOST_STATES:
            self.doubtful.clear()
        self.doubtful[seat] = clock

    def note_state(self, state: Hashable, times: int) -> None:
        """Nodes in this state can take it so many times."""
        if len(self.states) >= _MOST_STATES:
            self.states.clear()
        self.states[state] = times


class Shapes:
    """Shapes by what claims ask for; the ones not used for longest are forgotten first."""

    def __init__(self, matching: Matching, names: Names):
        self._matching = matching
        self._names = names
        self._known: OrderedDict[Hashable, Shape] = OrderedDict()
        self._keys: dict[int, tuple[ClaimSpec, Hashable]] = {}

    def forget(self) -> None:
        """Forget all of them: a device class has changed."""
        self._known.clear()

    def of(self, claims: Sequence[Claim], classes: Mapping[str, DeviceClass]) -> Shape | tuple[ClaimFault, ...]:
        """The shape of these claims; or all that is wrong with them."""
        key = tuple([self._key(claim.spec) for claim in claims])
        shape = self._known.get(key)
        if shape is not None:
            self._known.move_to_end(key)
            return shape
        wanted, faults = demands(claims, classes, self._matching, self._names)
        if faults:
            return faults
        if len(self._known) >= _MOST_SHAPES:
            self._known.popitem(last=False)
        shape = self._known[key] = Shape(wanted, [claim.spec for claim in claims], self._matching)
        return shape

    def _key(self, spec: ClaimSpec) -> Hashable:
        known = self._keys.get(id(spec))
        if known is None:
            if len(self._keys) >= _MOST_SPECS:
                self._keys.clear()
            known = self._keys[id(spec)] = (spec, _asked(spec))
        return known[1]


def _asked(spec: ClaimSpec) -> Hashable:
    """What a claim asks for, as a value."""
    return (
        tuple([_request(request) for request in spec.requests]),
        spec.constraints,
        tuple([_config(one) for one in spec.config]),
    )


def _request(request: Request) -> Hashable:
    return request.name, request.prioritized, tuple([_want(want) for want in request.wants])


def _want(want: Want) -> Hashable:
    asked = tuple([(name, amount.nanos, amount.format) for name, amount in want.capacity.items()])
    what = (want.device_class, want.name, want.selectors, want.mode, want.count, want.admin_access)
    return (*what, want.tolerations, asked, want.unsupported)


def _config(config: OpaqueConfig) -> Hashable:
    return config.driver, config.requests, config.source, json.dumps(config.parameters, sort_keys=True)


def _step(choice: Choice, spec: ClaimSpec, matching: Matching) -> Step:
    want = choice.want
    count = want.count if want.mode != "All" else 1
    constraints = [spec.constraints[number] for number in choice.constraints]
    alike = tuple([one.match_attribute for one in constraints if one.match_attribute])
    return Step(choice, want, choice.filter, matching.paths(choice.filter), count, alike)


def _plain(choice: Choice) -> bool:
    return choice.want.mode == "ExactCount" and not choice.want.admin_access and choice.preference == FIRST_FIT


def _needed(step: Step) -> int:
    return 0 if step.want.admin_access else step.count


def _alike(wanted: Sequence[Demand], specs: Sequence[ClaimSpec]) -> Sequence[Alike]:
    found: list[Alike] = []
    for index, spec in enumerate(specs):
        for number, constraint in enumerate(spec.constraints):
            steps = tuple([at for at, one in enumerate(wanted) if _bound(one, index, number)])
            if steps and _matches(constraint):
                found.append(Alike(constraint.match_attribute, steps))
    return found


def _apart(alike: Sequence[Alike]) -> Sequence[Alike]:
    own: dict[str, set[int]] = {}
    for one in alike:
        if len(one.steps) == 1:
            own.setdefault(one.attribute, set()).update(one.steps)
    return [Alike(attribute, tuple(sorted(steps))) for attribute, steps in own.items() if len(steps) > 1]


def _bound(demand: Demand, claim: int, constraint: int) -> bool:
    choices = demand.choices
    return demand.claim == claim and len(choices) == 1 and constraint in choices[0].constraints


def _matches(constraint: Constraint) -> bool:
    return bool(constraint.match_attribute)
