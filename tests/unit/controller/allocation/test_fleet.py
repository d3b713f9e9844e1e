"""What must hold for questions about the whole fleet, whatever happened before and however they are answered."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.allocation import CompiledRequest, Fleet
from controller.allocation.nodefit.fit import GreedyFit, QuickAnswer
from controller.allocation.nodefit.score import alternatives
from controller.cluster import Cluster
from controller.placement import Placed, place
from driver.errors import Fault
from driver.model import (
    Allocation,
    AttributeValue,
    Claim,
    Constraint,
    Device,
    NodeRequirement,
    NodeScope,
    NodeSelector,
    NodeSelectorTerm,
    Slice,
    Taint,
    TaintRule,
    Toleration,
    UnreadableValue,
    Want,
)
from tests.unit.controller.allocation.small_fleets import (
    DRIVER,
    claim,
    demand,
    device,
    fleet,
    memory,
    most_placed,
    nodes,
    pool,
    want,
)

NODES = ["n1", "n2", "n3"]
ZONE = {"n1": {"zone": "a"}, "n2": {"zone": "b"}, "n3": {"zone": "a"}}
SIZE = f'device.attributes["{DRIVER}"].size >= 2'
V = f"{DRIVER}/v"


def zoned(value: str) -> NodeScope:
    requirement = NodeRequirement("zone", "In", (value,))
    return NodeScope(selector=NodeSelector((NodeSelectorTerm((requirement,)),)))


# Clusters of a few nodes with pools of every kind, and what happens there


def rarely(times: int) -> st.SearchStrategy[bool]:
    """True about once in so many times."""
    return st.sampled_from([False] * (times - 1) + [True])


@st.composite
def card(draw: st.DrawFn, number: int, sets: dict[str, dict[str, int]]) -> list[Device]:
    """One card: whole, with partitions, or shared; sometimes tainted, invalid, or without what selectors read."""
    values: list[AttributeValue] = [0, 0, 1, (0, 1)]
    attributes: dict[str, AttributeValue] = {"v": draw(st.sampled_from(values))}
    if not draw(rarely(8)):
        attributes["size"] = draw(st.integers(1, 3))
    if draw(rarely(40)):
        attributes["broken"] = UnreadableValue("no value")
    taints = (Taint("t"),) if draw(rarely(10)) else ()
    style = draw(st.sampled_from(["plain", "plain", "parted", "shared", "shared"]))
    if style == "plain":
        return [device(f"gpu-{number}", attributes, taints=taints)]
    name = f"card-{draw(st.integers(0, number))}"
    sets.setdefault(name, {"u": 4})
    if style == "shared":
        capacity = {"memory": memory(f"{draw(st.integers(1, 4))}Gi", "1Gi")}
        shared: dict[str, AttributeValue] = {**attributes, "kind": "share"}
        return [device(f"share-{number}", shared, draws={f"{name}.u": 4}, capacity=capacity, shared=True)]
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    whole = device(f"gpu-{number}", attributes, draws={f"{name}.u": 4}, taints=taints)
    parts = [
        device(f"mig-{number}-{at}", {**attributes, "kind": "mig"}, draws={f"{name}.u": size})
        for at, size in enumerate(sizes)
    ]
    return [whole, *parts]


@st.composite
def pools(draw: st.DrawFn, node: str, driver: str = DRIVER) -> list[Slice]:
    sets: dict[str, dict[str, int]] = {}
    devices = [one for number in range(draw(st.sampled_from([3, 2, 4, 1, 0]))) for one in draw(card(number, sets))]
    return pool(*devices, sets=sets, node=node, driver=driver)


@st.composite
def shared_pools(draw: st.DrawFn) -> list[Slice]:
    """A pool of no one node: of a zone, of all nodes, or told per device."""
    sets: dict[str, dict[str, int]] = {}
    devices = [one for number in range(draw(st.integers(1, 2))) for one in draw(card(number, sets))]
    kind = draw(st.sampled_from(["zone", "all", "device"]))
    scope = {"zone": zoned("a"), "all": NodeScope(all_nodes=True), "device": NodeScope(per_device=True)}[kind]
    if kind == "device":
        devices = [replace(one, scope=NodeScope(draw(st.sampled_from(NODES)))) for one in devices]
    return [replace(part, name=f"roam-{part.name}", scope=scope) for part in pool(*devices, sets=sets, node="roam")]


@st.composite
def clusters(draw: st.DrawFn) -> list[Slice]:
    parts = [part for node in NODES for part in draw(pools(node))]
    if draw(st.booleans()):
        parts += draw(pools("n2", "other.dev"))
    if draw(rarely(3)):
        parts += draw(shared_pools())
    return parts


wants = st.builds(
    lambda kind, count, gib, selectors, tolerates, mode: want(
        kind,
        *selectors,
        count=count,
        capacity={"memory": f"{gib}Gi"} if kind == "share" and gib else {},
        tolerations=(Toleration(operator="Exists"),) if tolerates else (),
        mode=mode,
    ),
    st.sampled_from(["share", "gpu", "gpu", "mig", "share", "any"]),
    st.sampled_from([1, 1, 1, 2, 3]),
    st.integers(0, 2),
    st.sampled_from([(), (), (SIZE,)]),
    st.booleans(),
    st.sampled_from(["ExactCount"] * 15 + ["All"]),
)
same, differ = Constraint((), V), Constraint((), "", V)
constraints = st.sampled_from(
    [(), (), (), (same,), (differ,), (Constraint(("r0",), V),), (Constraint((), f"{DRIVER}/size"),), (same, differ)]
)


@st.composite
def asked(draw: st.DrawFn) -> Claim:
    some: list[Want | tuple[Want, ...]] = [draw(wants) for _ in range(draw(st.sampled_from([1, 1, 2])))]
    if draw(rarely(4)):
        some[-1] = (replace(draw(wants), name="a"), replace(draw(wants), name="b"))
    return claim(*some, constraints=draw(constraints))


Pod = tuple[Claim, ...]
pods = (
    st.sampled_from([1, 1, 1, 2])
    .flatmap(lambda count: st.tuples(*[asked()] * count))
    .map(lambda claims: tuple(replace(one, name=f"c{i}", uid=f"u{i}") for i, one in enumerate(claims)))
)


@dataclass(frozen=True)
class Do:
    """Something that happens: ``what``, to ``which`` of the things of its kind there are."""

    what: str
    which: int


_WHAT = ["place", "place", "place", "place", "place", "release", "release", "ask", "room", "trial"]
_CHANGES = ["no slice", "slice", "no node", "node", "rule", "no rule"]
happenings = st.builds(Do, st.sampled_from(_WHAT * 2 + _CHANGES), st.integers(0, 30))
questions = st.lists(pods, min_size=2, max_size=3)


class ChangedFleet:
    """A fleet that has seen everything happen, and the objects of which another can be built."""

    def __init__(self, parts: Sequence[Slice], pods: Sequence[Pod], happened: Sequence[Do]):
        self.parts = list(parts)
        self.pods = pods
        self.slices = {part.name: part for part in parts}
        self.nodes = {node: ZONE[node] for node in NODES}
        self.held: dict[str, Allocation] = {}
        self.rules: dict[str, TaintRule] = {}
        self.number = 0
        self.fleet = self.rebuilt()
        for do in happened:
            self.happen(do)

    def rebuilt(self) -> Fleet:
        built = fleet(*self.slices.values(), step_limit=20_000)
        for node, labels in self.nodes.items():
            built.ledger.upsert_node(node, labels)
        for uid, allocation in self.held.items():
            built.ledger.assume(uid, allocation)
        for rule in self.rules.values():
            built.ledger.upsert_taint_rule(rule)
        return built

    def happen(self, do: Do) -> None:
        pod = self.pods[do.which % len(self.pods)]
        match do.what:
            case "place":
                placed = place(self.fleet, pod)
                if isinstance(placed, Placed):
                    for allocation in placed.allocations:
                        self.number += 1
                        self.held[f"h{self.number}"] = allocation
                        self.fleet.ledger.assume(f"h{self.number}", allocation)
            case "release" if self.held:
                uid = list(self.held)[do.which % len(self.held)]
                del self.held[uid]
                self.fleet.ledger.remove_claim(uid)
            case "ask":
                self.fleet.allocate(NODES[do.which % 3], ZONE[NODES[do.which % 3]], pod)
            case "room":
                most_placed(self.fleet, pod, 5)
            case "trial":
                with Cluster.unlimited(self.fleet, nodes(*self.nodes)).what_if() as trial:
                    for _ in range(do.which % 4):
                        trial.schedule(demand(pod))
            case _:
                self.change(do)

    def change(self, do: Do) -> None:
        node = NODES[do.which % 3]
        part = self.parts[do.which % len(self.parts)]
        rule = TaintRule("r", Taint("rule"), selects=True, pool=part.pool)
        match do.what:
            case "no slice":
                self.slices.pop(part.name, None)
                self.fleet.ledger.remove_slice(part.name)
            case "slice":
                self.slices[part.name] = part
                self.fleet.ledger.upsert_slice(part)
            case "no node":
                self.nodes.pop(node, None)
                self.fleet.ledger.remove_node(node)
            case "node":
                self.nodes[node] = {"zone": "ab"[do.which % 2]}
                self.fleet.ledger.upsert_node(node, self.nodes[node])
            case "rule":
                self.rules["r"] = rule
                self.fleet.ledger.upsert_taint_rule(rule)
            case "no rule":
                self.rules.pop("r", None)
                self.fleet.ledger.remove_taint_rule("r")


def node_by_node(world: ChangedFleet, pod: Pod) -> Placed | tuple[Fault, ...]:
    """What a new fleet says that is asked for each node in turn: the first of those with the earliest alternatives."""
    built = world.rebuilt()
    answers = [(node, built.allocate(node, world.nodes[node], pod)) for node in sorted(world.nodes)]
    found = [Placed(node, answer) for node, answer in answers if isinstance(answer, tuple)]
    return min(found, key=lambda one: alternatives(pod, one.allocations), default=())


def had(world: ChangedFleet, pod: Pod) -> list[tuple[Allocation, ...] | None]:
    """What the pod would get on each node."""
    answers = [world.fleet.allocate(node, labels, pod) for node, labels in world.nodes.items()]
    return [answer if isinstance(answer, tuple) else None for answer in answers]


def state(built: Fleet) -> object:
    return built.ledger.usage_snapshot(), built.ledger.free_counters()


worlds = st.builds(ChangedFleet, clusters(), questions, st.lists(happenings, min_size=4, max_size=20))
worlds_of_long_standing = st.builds(
    ChangedFleet, clusters(), questions, st.lists(happenings, min_size=80, max_size=160)
)


@settings(max_examples=200, deadline=None)
@given(worlds)
def test_the_fleet_answers_as_a_new_one_does_node_by_node(world: ChangedFleet) -> None:
    for pod in world.pods:
        assert place(world.fleet, pod) == node_by_node(world, pod)
    assert state(world.fleet) == state(world.rebuilt())


@settings(max_examples=40, deadline=None)
@given(worlds_of_long_standing)
def test_it_does_so_however_much_has_happened(world: ChangedFleet) -> None:
    for pod in world.pods:
        assert place(world.fleet, pod) == node_by_node(world, pod)
    assert state(world.fleet) == state(world.rebuilt())


@settings(max_examples=100, deadline=None)
@given(worlds)
def test_masks_choose_what_the_search_chooses(world: ChangedFleet) -> None:
    for pod in world.pods:
        quick = had(world, pod)
        with patch.object(GreedyFit, "fit", lambda *_: QuickAnswer.UNKNOWN):
            assert had(world, pod) == quick


@settings(max_examples=80, deadline=None)
@given(worlds)
def test_a_node_takes_a_pod_at_most_as_often_as_is_said(world: ChangedFleet) -> None:
    before = state(world.fleet)
    for pod in world.pods:
        request = world.fleet.compile(pod)
        assert isinstance(request, CompiledRequest)
        rooms = most_placed(world.fleet, pod, 4)
        assert state(world.fleet) == before
        for node, labels in world.nodes.items():
            most = world.fleet.most_fits(world.fleet.slot(node, labels), request, 4)
            with Cluster.unlimited(world.fleet, nodes(*world.nodes)).what_if() as trial:
                count = sum(isinstance(trial.schedule(demand(pod, node)), Placed) for _ in range(4))
            assert rooms.get(node, 0) == count <= most


@settings(max_examples=60, deadline=None)
@given(worlds, st.integers(0, 4))
def test_a_trial_leaves_nothing_behind(world: ChangedFleet, undone: int) -> None:
    before, answers = state(world.fleet), [place(world.fleet, pod) for pod in world.pods]
    with Cluster.unlimited(world.fleet, nodes(*world.nodes)).what_if() as trial:
        for pod in (*world.pods, *world.pods):
            trial.schedule(demand(pod))
        trial.undo(max(0, trial.depth - undone))
    assert state(world.fleet) == before
    assert [place(world.fleet, pod) for pod in world.pods] == answers


def test_what_is_put_counts_for_what_is_put_next() -> None:
    built = fleet(*pool(device("a"), device("b"), node="n1"), *pool(device("a"), node="n2"))
    for node in NODES:
        built.ledger.upsert_node(node, {})
    with Cluster.unlimited(built, nodes(*NODES)).what_if() as trial:
        placed = [trial.schedule(demand([claim(want())])) for _ in range(4)]
    assert [one.node if isinstance(one, Placed) else None for one in placed] == ["n1", "n1", "n2", None]


def test_a_claim_said_again_as_it_is_frees_nothing() -> None:
    built = fleet(*pool(device("a"), node="n1"))
    built.ledger.upsert_node("n1", {})
    one = claim(want())
    placed = place(built, [one])
    assert isinstance(placed, Placed)
    built.ledger.assume(one.uid, placed.allocations[0])
    before = state(built)
    built.ledger.upsert_claim(replace(one, allocation=replace(placed.allocations[0], timestamp="2026-01-01T00:00:00Z")))
    assert state(built) == before
    built.ledger.remove_claim(one.uid)
    assert place(built, [one]) == placed
