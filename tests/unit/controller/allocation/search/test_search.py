"""The search finds what trying everything in order finds first, however much it skips."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation.devices.layout import PoolBlueprints
from controller.allocation.devices.pools import Pool
from controller.allocation.requests import RESULTS_LIMIT, Criteria, Demand, RequestChoice
from controller.allocation.rules import CapacityRequest
from controller.allocation.search.attempt import Attempt, Candidate, Option, Pick, Task, fault_on
from controller.allocation.search.search import Search
from controller.allocation.selectors import Filter
from driver.cel import SelectorFault
from driver.model import AttributeValue, Claim, ClaimSpec, Constraint, Device, DeviceClass, Request
from tests.unit.controller.allocation.small_fleets import DRIVER, claim, device, memory, pool, q, want


class Trying:
    """Every device in order, nothing skipped: slow, and plainly right."""

    def __init__(self, claims: Sequence[Claim], tasks: Sequence[Task]):
        self.attempt = Attempt(claims)
        self.tasks = tasks

    def first(self, index: int = 0) -> bool:
        if index == len(self.tasks):
            return True
        claim = self.tasks[index].demand.claim
        return any(
            self.attempt.counts[claim] + option.wanted <= RESULTS_LIMIT and self.choose(index, option, 0, option.wanted)
            for option in self.tasks[index].options
        )

    def choose(self, index: int, option: Option, start: int, left: int) -> bool:
        if not left:
            return self.first(index + 1)
        for position in range(start, len(option.candidates)):
            candidate = option.candidates[position]
            if candidate.fault is not None:
                if self.attempt.skips(self.tasks[index].demand.claim, option.choice, candidate.device):
                    continue
                raise fault_on(option.choice, candidate)
            if not self.attempt.conflict(self.tasks[index].demand.claim, option.choice, candidate):
                self.attempt.pick(self.tasks[index].demand.claim, option.choice, candidate)
                if self.choose(index, option, position + 1, left - 1):
                    return True
                self.attempt.undo()
        return False


# Small inputs of every sort: tasks over the devices of one pool

KINDS = ("gpu", "nic", "share", "mig")


@st.composite
def offered(draw: st.DrawFn) -> Pool:
    """Up to seven devices: plain ones, shareable ones, and such as draw on counters of two cards, some with groups."""
    devices: list[Device] = []
    grouped = draw(st.integers(0, 3)) == 0
    for number in range(draw(st.integers(1, 7))):
        kind = draw(st.sampled_from(KINDS))
        few, listed = st.integers(0, 1), st.lists(st.integers(0, 6), min_size=1, max_size=2, unique=True).map(tuple)
        attributes: dict[str, AttributeValue] = {"kind": kind, "v": draw(few), "root": draw(st.integers(0, 6) | listed)}
        if draw(st.integers(0, 9)) == 0:
            del attributes["root"]
        draws = {f"card-{draw(few)}.u{u}": draw(st.integers(1, 3)) for u in range(draw(few) + 1)}
        capacity = {"memory": memory(f"{draw(st.integers(2, 5))}Gi", "1Gi", step="1Gi")}
        shared = kind == "share"
        plain = device(
            f"d{number}",
            attributes,
            draws=draws if kind == "mig" or (shared and draw(st.booleans())) else {},
            capacity=capacity if shared and draw(st.booleans()) else {},
            shared=shared,
        )
        groups = tuple(draw(st.sets(st.sampled_from("xyz"), max_size=2))) if grouped else ()
        drawn = tuple(replace(one, compatibility_groups=groups) for one in plain.consumes)
        devices.append(replace(plain, consumes=drawn))
    sets = {f"card-{card}": {"u0": draw(st.integers(1, 4)), "u1": 4} for card in range(2)}
    return Pool((DRIVER, "p"), pool(*devices, sets=sets), {}, PoolBlueprints())


limits = st.builds(
    lambda requests, name, distinct: Constraint(
        tuple(sorted(requests)), "" if distinct else f"{DRIVER}/{name}", f"{DRIVER}/{name}" if distinct else ""
    ),
    st.sets(st.sampled_from(["r0", "r1", "r2", "r3"]), max_size=3),
    st.sampled_from(["v", "root", "root"]),
    st.booleans(),
)


@st.composite
def asked(draw: st.DrawFn, made: Pool, faulty: bool) -> tuple[list[Claim], list[Task]]:
    claims = [claim(name=f"c{number}") for number in range(draw(st.integers(1, 2)))]
    claims = [replace(one, spec=ClaimSpec((), tuple(draw(st.lists(limits, max_size=2))))) for one in claims]
    tasks: list[Task] = []
    for number in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(claims) - 1)) if not tasks else tasks[-1].demand.claim
        at = min(len(claims) - 1, at + draw(st.integers(0, 1)))
        options = [draw(options_of(made, claims[at], f"r{number}", faulty)) for _ in range(draw(st.integers(1, 2)))]
        possible = tuple(one for one in options if len(one.candidates) >= one.wanted)
        if possible:
            tasks.append(Task(Demand(at, Request(f"r{number}", ()), ()), possible))
    return claims, tasks


@st.composite
def options_of(draw: st.DrawFn, made: Pool, asking: Claim, name: str, faulty: bool) -> Option:
    kinds = draw(st.sets(st.sampled_from(KINDS), min_size=1, max_size=2))
    admin = draw(st.integers(0, 9)) == 0
    amount = q(f"{draw(st.integers(1, 3))}Gi")
    applying = tuple(i for i, one in enumerate(asking.spec.constraints) if not one.requests or name in one.requests)
    criteria = Criteria(Filter((), (), ()), CapacityRequest({}), admin_access=admin)
    choice = RequestChoice(name, want(count=1, admin=admin), DeviceClass("c"), criteria, applying)
    candidates: list[Candidate] = []
    for published in made.devices:
        if published.spec.attributes[f"{DRIVER}/kind"] not in kinds or draw(st.integers(0, 7)) == 0:
            continue
        if faulty and draw(st.integers(0, 5)) == 0:
            candidates.append(Candidate(published, fault=SelectorFault("no such key")))
            continue
        takes = {"memory": amount} if published.spec.capacity else {}
        if takes and amount > published.spec.capacity["memory"].value:
            continue
        candidates.append(Candidate(published, takes if published.spec.allow_multiple and not admin else None))
    return Option(choice, tuple(candidates), draw(st.sampled_from([1, 1, 2, 3])))


@st.composite
def problems(draw: st.DrawFn, faulty: bool = False) -> tuple[list[Claim], list[Task]]:
    return draw(asked(draw(offered()), faulty))


def chosen(picks: Sequence[Pick]) -> list[tuple[int, str, str]]:
    return [(pick.claim, pick.choice.name, pick.candidate.device.id.device) for pick in picks]


@settings(max_examples=300, deadline=None)
@given(problems())
def test_the_choice_is_the_first_of_all_and_none_is_missed(problem: tuple[list[Claim], list[Task]]) -> None:
    trying, search = Trying(*problem), Search(*problem)
    found = trying.first()
    assert search.run() == found
    if found:
        assert chosen(search.picks) == chosen(trying.attempt.picks)
    else:
        assert search.loss()[0] >= 0


@contextmanager
def limited(results: int) -> Iterator[None]:
    """Claims may hold so few devices that the limit matters for small inputs."""
    with ExitStack() as patches:
        for module in ("controller.allocation.search.search", "controller.allocation.search.bounds", __name__):
            patches.enter_context(patch(f"{module}.RESULTS_LIMIT", results))
        yield


@settings(max_examples=100, deadline=None)
@given(problems(), st.integers(1, 4))
def test_no_claim_gets_more_devices_than_it_may_hold(problem: tuple[list[Claim], list[Task]], most: int) -> None:
    with limited(most):
        trying, search = Trying(*problem), Search(*problem)
        found = trying.first()
        assert search.run() == found
        if found:
            assert chosen(search.picks) == chosen(trying.attempt.picks)


@settings(max_examples=150, deadline=None)
@given(problems(faulty=True))
def test_a_device_on_which_a_selector_fails_counts_exactly_if_it_is_visited(
    problem: tuple[list[Claim], list[Task]],
) -> None:
    assert outcome(Trying(*problem)) == outcome(Search(*problem))


def outcome(one: Trying | Search) -> object:
    try:
        found = one.first() if isinstance(one, Trying) else one.run()
        picks = one.attempt.picks if isinstance(one, Trying) else one.picks
    except SelectorFault as fault:
        return str(fault)
    return found and chosen(picks)


def test_a_claim_that_cannot_hold_all_of_a_longer_alternative_gets_a_shorter_one() -> None:
    """Both use the same devices, but by different numbers of shares."""
    made = Pool((DRIVER, "p"), pool(*(device(f"d{n}", {}, shared=True) for n in range(4))), {}, PoolBlueprints())
    first, second, third, fourth = (Candidate(one, {}) for one in made.devices)
    faulty = replace(fourth, consumes=None, fault=SelectorFault("no such key"))
    tasks = [
        Task(Demand(0, Request("both", ()), ()), (option((first, second), 2),)),
        Task(Demand(0, Request("again", ()), ()), (option((first, second), 2), option((first,), 1))),
        # Bounds look at no request that could visit a device on which a selector fails.
        Task(Demand(0, Request("other", ()), ()), (option((third, faulty), 1),)),
    ]
    with limited(4):
        search = Search([claim()], tasks)
        assert search.run()
    assert [device for _, _, device in chosen(search.picks)] == ["d0", "d1", "d0", "d2"]


def option(candidates: tuple[Candidate, ...], wanted: int) -> Option:
    criteria = Criteria(Filter((), (), ()), CapacityRequest({}))
    return Option(RequestChoice("r", want(count=wanted), DeviceClass("c"), criteria), candidates, wanted)
