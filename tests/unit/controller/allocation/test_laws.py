"""What must hold for any fleet, any claims and any order of events."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import Fleet, NodeReasons
from driver.model import Allocation, Claim, Constraint, Device, DeviceId, Result, Slice, Taint, Want
from tests.unit.controller.allocation.small_fleets import DRIVER, NODE, claim, device, fleet, memory, pool, want

# Fleets of one node: cards with partitions on counters, shareable cards, plain ones.


@st.composite
def cards(draw: st.DrawFn) -> tuple[list[Device], dict[str, dict[str, int]]]:
    devices: list[Device] = []
    sets: dict[str, dict[str, int]] = {}
    for number in range(draw(st.integers(1, 3))):
        value = draw(st.integers(0, 2))
        style = draw(st.sampled_from(["plain", "parted", "shared"]))
        if style == "plain":
            devices.append(device(f"gpu-{number}", {"v": value}))
            continue
        sets[f"card-{number}"] = {"slices": 4}
        devices.append(device(f"gpu-{number}", {"v": value}, draws={f"card-{number}.slices": 4}))
        if style == "parted":
            for part in range(draw(st.integers(1, 3))):
                size = draw(st.integers(1, 3))
                drawn = {f"card-{number}.slices": size}
                devices.append(device(f"mig-{number}-{part}", {"kind": "mig", "v": value}, draws=drawn))
        else:
            capacity = {"memory": memory(f"{draw(st.integers(1, 4))}Gi", "1Gi")}
            attributes: dict[str, int | str] = {"kind": "share", "v": value}
            drawn = {f"card-{number}.slices": 4}
            devices.append(device(f"share-{number}", attributes, draws=drawn, capacity=capacity, shared=True))
    return devices, sets


wants = st.builds(
    lambda kind, count, gib: want(
        kind, count=count, capacity={"memory": f"{gib}Gi"} if kind == "share" and gib else {}
    ),
    st.sampled_from(["gpu", "gpu", "mig", "share", "any"]),
    st.integers(1, 2),
    st.integers(0, 3),
)
constraints = st.lists(
    st.sampled_from(
        [Constraint((), f"{DRIVER}/v"), Constraint((), "", f"{DRIVER}/v"), Constraint(("r0",), f"{DRIVER}/v")]
    ),
    max_size=1,
)


@st.composite
def claims(draw: st.DrawFn, name: str = "c") -> Claim:
    asked: list[Want | tuple[Want, ...]] = list(draw(st.lists(wants, min_size=1, max_size=3)))
    if draw(st.booleans()):
        asked[-1] = (replace(draw(wants), name="a"), replace(draw(wants), name="b"))
    return claim(*asked, constraints=tuple(draw(constraints)), name=name)


def consumption(devices: Sequence[Device], results: Sequence[Result]) -> str:
    """What is wrong with these results being in use at once; "" if nothing."""
    known = {one.name: one for one in devices}
    counters: dict[str, int] = {}
    for name in {result.device.device for result in results}:
        mine = [result for result in results if result.device.device == name]
        one = known[name]
        if not one.allow_multiple and len(mine) > 1:
            return f"{name} is held {len(mine)} times"
        if one.allow_multiple and not all(result.share_id for result in mine):
            return f"{name} is held without a share id"
        for key, capacity in one.capacity.items() if one.allow_multiple else ():
            if sum(result.consumed[key].nanos for result in mine) > capacity.value.nanos:
                return f"{key} of {name} is exceeded"
        for consumed in one.consumes:
            for key, amount in consumed.counters.items():
                counters[f"{consumed.counter_set}.{key}"] = (
                    counters.get(f"{consumed.counter_set}.{key}", 0) + amount.value
                )
    exceeded = [key for key, amount in counters.items() if amount > 4]
    return f"{exceeded} exceeded" if exceeded else ""


@given(cards(), st.lists(claims(), min_size=1, max_size=5))
def test_nothing_is_ever_allocated_twice(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: list[Claim]
) -> None:
    devices, sets = made
    built = fleet(*pool(*devices, sets=sets))
    held: list[Result] = []
    for number, one in enumerate(asked):
        named = replace(one, uid=f"u{number}")
        answer = built.allocate(NODE, {}, [named])
        if isinstance(answer, tuple):
            held += answer[0].results
            built.ledger.assume(named.uid, answer[0])
            assert not consumption(devices, held)


@given(cards(), claims(), claims())
def test_deciding_changes_nothing_and_twice_is_once(
    made: tuple[list[Device], dict[str, dict[str, int]]], one: Claim, two: Claim
) -> None:
    built = fleet(*pool(*made[0], sets=made[1]))
    before = built.ledger.usage_snapshot(), built.ledger.free_counters()
    first = built.allocate(NODE, {}, [one, two])
    assert built.allocate(NODE, {}, [one, two]) == first
    assert (built.ledger.usage_snapshot(), built.ledger.free_counters()) == before


# Brute force on tiny inputs


def feasible(devices: Sequence[Device], asked: Claim) -> bool:
    """Whether any choice of alternatives and devices satisfies the claim, tried one by one."""
    for wanted in itertools.product(*(request.wants for request in asked.spec.requests)):
        options = [list(itertools.combinations([one for one in devices if _selected(one, w)], w.count)) for w in wanted]
        for chosen in itertools.product(*options):
            if _sound(devices, asked, wanted, chosen):
                return True
    return False


def _selected(one: Device, wanted: Want) -> bool:
    return wanted.device_class in ("any", one.attributes[f"{DRIVER}/kind"])


def _sound(devices: Sequence[Device], asked: Claim, wanted: Sequence[Want], chosen: Sequence[Sequence[Device]]) -> bool:
    results = []
    for one_want, group in zip(wanted, chosen, strict=True):
        for one in group:
            asked_for = one_want.capacity.get("memory")
            if asked_for is not None and ("memory" not in one.capacity or asked_for > one.capacity["memory"].value):
                return False
            taken = {
                key: asked_for or c.policy.default for key, c in one.capacity.items() if c.policy and c.policy.default
            }
            results.append(Result("r", DeviceId("d", "p", one.name), "s" if one.allow_multiple else "", taken))
    if consumption(devices, results):
        return False
    for constraint in asked.spec.constraints:
        groups = chosen[:1] if constraint.requests else chosen
        values = [one.attributes[f"{DRIVER}/v"] for group in groups for one in group]
        if constraint.match_attribute and len(set(values)) > 1:
            return False
        if constraint.distinct_attribute and len(set(values)) < len(values):
            return False
    return True


@settings(max_examples=200)
@given(cards(), claims())
def test_a_solution_is_found_exactly_if_there_is_one(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: Claim
) -> None:
    answer = fleet(*pool(*made[0], sets=made[1]), step_limit=100_000).allocate(NODE, {}, [asked])
    assert isinstance(answer, tuple) == feasible(made[0], asked)
    if isinstance(answer, NodeReasons):
        assert answer.sentences
        assert not answer.undecided


# Any interleaving of events

_DEVICES = (
    [device("gpu-0", draws={"card.u": 4}), device("mig-0", {"kind": "mig"}, draws={"card.u": 1})],
    [device("gpu-0"), device("gpu-1")],
    [device("share-0", {"kind": "share"}, capacity={"memory": memory("4Gi", "1Gi")}, shared=True, draws={"card.u": 4})],
)
_SLICES = [
    replace(part, name=f"{part.name}-{number}", pool=f"p{which}", slice_count=1)
    for number, (which, devices) in enumerate(itertools.product(range(2), _DEVICES))
    for part in pool(*devices)[:1]
] + [
    replace(part, pool="p0", slice_count=2, generation=g) for g in (1, 2) for part in pool(sets={"card": {"u": 4}})[1:]
]


def _allocation(names: Sequence[str], shared: bool) -> Allocation:
    pairs = enumerate(names)
    return Allocation(
        tuple(Result(f"r{i}", DeviceId(DRIVER, f"p{i % 2}", name), f"s{i}" if shared else "") for i, name in pairs)
    )


allocations = st.builds(
    _allocation, st.lists(st.sampled_from(["gpu-0", "gpu-1", "mig-0", "share-0"]), max_size=3), st.booleans()
)
uids = st.sampled_from(["u0", "u1", "u2"])
events = st.one_of(
    st.tuples(st.just("slice"), st.sampled_from(_SLICES)),
    st.tuples(st.just("no slice"), st.sampled_from([part.name for part in _SLICES])),
    st.tuples(st.just("claim"), uids, st.none() | allocations),
    st.tuples(st.just("no claim"), uids),
    st.tuples(st.just("assume"), uids, allocations),
    st.tuples(st.just("forget"), uids),
    st.tuples(st.just("look")),
)


class Objects:
    """What the API would hold after the events."""

    def __init__(self) -> None:
        self.slices: dict[str, Slice] = {}
        self.claims: dict[str, Allocation | None] = {}
        self.assumed: dict[str, Allocation] = {}

    def apply(self, event: tuple[object, ...], built: Fleet) -> None:
        match event:
            case ("slice", Slice() as part):
                self.slices[part.name] = part
                built.ledger.upsert_slice(part)
            case ("no slice", str(name)):
                self.slices.pop(name, None)
                built.ledger.remove_slice(name)
            case ("claim", str(uid), Allocation() | None as held):
                self.claims[uid] = held
                if held is not None:
                    self.assumed.pop(uid, None)
                built.ledger.upsert_claim(replace(claim(name=uid), uid=uid, allocation=held))
            case ("no claim", str(uid)):
                self.claims.pop(uid, None)
                self.assumed.pop(uid, None)
                built.ledger.remove_claim(uid)
            case ("assume", str(uid), Allocation() as decided):
                self.assumed[uid] = decided
                built.ledger.assume(uid, decided)
            case ("forget", str(uid)):
                self.assumed.pop(uid, None)
                built.ledger.forget(uid)
            case _:
                built.allocate(NODE, {}, [claim(want("any"))])

    def rebuilt(self) -> Fleet:
        built = fleet(*self.slices.values())
        for uid, held in self.claims.items():
            built.ledger.upsert_claim(replace(claim(name=uid), uid=uid, allocation=held))
        for uid, decided in self.assumed.items():
            built.ledger.assume(uid, decided)
        return built


ASKING = [claim(want("any")), claim(want("any", count=2)), claim(want("gpu")), claim(want("mig")), claim(want("share"))]


@settings(max_examples=150)
@given(st.lists(events, max_size=20))
def test_any_order_of_events_gives_the_state_a_rebuild_gives(happened: list[tuple[object, ...]]) -> None:
    objects, built = Objects(), fleet()
    for event in happened:
        objects.apply(event, built)
    rebuilt = objects.rebuilt()
    assert built.ledger.usage_snapshot() == rebuilt.ledger.usage_snapshot()
    assert built.ledger.free_counters() == rebuilt.ledger.free_counters()
    assert [built.allocate(NODE, {}, [one]) for one in ASKING] == [rebuilt.allocate(NODE, {}, [one]) for one in ASKING]


@given(cards(), st.lists(claims(), max_size=4), st.permutations(range(4)))
def test_releasing_everything_leaves_nothing_in_use(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: list[Claim], order: list[int]
) -> None:
    built = fleet(*pool(*made[0], sets=made[1]))
    empty = built.ledger.usage_snapshot(), built.ledger.free_counters()
    for number, one in enumerate(asked):
        named = replace(one, uid=f"u{number}")
        answer = built.allocate(NODE, {}, [named])
        if isinstance(answer, tuple):
            built.ledger.assume(named.uid, answer[0])
            built.ledger.upsert_claim(replace(named, allocation=answer[0]))
    for number in order:
        built.ledger.remove_claim(f"u{number}")
    assert (built.ledger.usage_snapshot(), built.ledger.free_counters()) == empty


@given(cards(), claims(), st.sampled_from(["NoSchedule", "NoExecute"]))
def test_a_tainted_device_is_never_chosen(
    made: tuple[list[Device], dict[str, dict[str, int]]], asked: Claim, effect: str
) -> None:
    devices = [replace(one, taints=(Taint("t", "", effect),)) if i % 2 else one for i, one in enumerate(made[0])]
    answer = fleet(*pool(*devices, sets=made[1])).allocate(NODE, {}, [asked])
    if isinstance(answer, tuple):
        tainted = {one.name for one in devices if one.taints}
        assert not tainted & {result.device.device for result in answer[0].results}
