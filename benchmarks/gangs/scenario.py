"""The cluster of the benchmark and its gangs: 5,000 nodes with eight cards, in 50 InfiniBand clusters with ten leaves.

As API objects, one per line: our side and the peer read the same bytes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from benchmarks.allocation.hardware import CARDS, DRIVER, FABRIC, MODELS, NODE, Model, Offered, slices, whole
from benchmarks.allocation.scenario import held_claim, new_claim, node_name
from benchmarks.allocation.workloads import request, spec
from controller.gangs import Level, ValueConstraint
from driver.names import Names
from driver.wire import Json

NODES = 5_000
PER_CLUSTER = 100
PER_LEAF = 10
SHORT_OF = 64
"""Nodes that the gang wants which every cluster is one short of."""

IB = Level(f"{DRIVER}/ibCluster", "attribute")
LEAF = Level("leaf", "nodeLabel", required=False)
RAIL = f"{DRIVER}/rail"
RAILS = (ValueConstraint(RAIL, "sameSet"),)
IN_LEAF = Level("leaf", "nodeLabel", group_size=20)


@dataclass(frozen=True)
class Question:
    """A gang that is decided on a cluster.

    Attributes:
        state: what is in use (``STATES``).
        cards: of each member.
        gangs: how many such gangs are decided one after the other, each on top of those before.
        fits: whether it is expected to fit.
        with_peer: whether the peer answers it, too.
        pinned: whether each member names its node.
        constraints: values that the members' devices have to have in common.
    """

    name: str
    state: str
    members: int
    cards: int
    levels: tuple[Level, ...]
    gangs: int = 1
    fits: bool = True
    with_peer: bool = False
    pinned: bool = False
    constraints: tuple[ValueConstraint, ...] = ()


QUESTIONS = (
    Question("64 x 8 cards", "empty", 64, 8, (IB, LEAF), with_peer=True),
    Question("64 x 8 cards", "fragmented", 64, 8, (IB, LEAF), with_peer=True),
    Question("64 x 8 cards, one short everywhere", "short", 64, 8, (IB, LEAF), fits=False, with_peer=True),
    Question("1,000 x 1 card, 20 in a leaf", "fragmented", 1_000, 1, (IN_LEAF,)),
    Question("1,000 x 4 cards anywhere", "empty", 1_000, 4, ()),
    Question("20 gangs of 8 x 8 cards", "fragmented", 8, 8, (IB, LEAF), gangs=20),
    Question("16 x 8 cards", "empty", 16, 8, (IB, LEAF)),
    Question("16 x 8 cards, each on a node that it names", "empty", 16, 8, (IB, LEAF), pinned=True),
    Question("64 x 2 cards, same rails", "empty", 64, 2, (IB, LEAF), constraints=RAILS),
    Question("16 x 2 cards, same rails", "holes", 16, 2, (IB, LEAF), constraints=RAILS),
    Question("20 gangs of 8 x 2 cards, same rails", "holes", 8, 2, (IB, LEAF), gangs=20, constraints=RAILS),
    Question("64 x 4 cards, same rails in no cluster", "holes", 64, 4, (IB, LEAF), fits=False, constraints=RAILS),
)


def cluster(state: str, nodes: int = NODES) -> Iterator[str]:
    """Classes, nodes, slices and the claims that hold the devices in use: a line of JSON each."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    named = {"kind": "DeviceClass", "apiVersion": "resource.k8s.io/v1", "metadata": {"name": DRIVER}}
    yield json.dumps({**named, "spec": {"selectors": [selector]}}) + "\n"
    text = slices(MODELS[0], _on_rails, DRIVER)
    for number in range(nodes):
        yield json.dumps(node(number)) + "\n"
        yield text.replace(NODE, node_name(number)).replace(FABRIC, f"ib-{number // PER_CLUSTER:02}")
    for number, used in enumerate(STATES[state](nodes)):
        if used:
            yield json.dumps(_holder(number, used)) + "\n"


def _on_rails(model: Model) -> Offered:
    """Eight cards, each on the rail of its number."""
    cards, sets = whole(model)
    return [
        replace(card, attributes={**card.attributes, RAIL: f"rail-{number}"}) for number, card in enumerate(cards)
    ], sets


def node(number: int) -> Json:
    """A Node object that is ready. Leaves of two clusters have the same names."""
    name = node_name(number)
    labels = {"kubernetes.io/hostname": name, "leaf": f"l{number % PER_CLUSTER // PER_LEAF}"}
    allocatable = {"cpu": "128", "memory": "2Ti", "pods": "110"}
    conditions = [{"type": "Ready", "status": "True"}]
    metadata = {"name": name, "labels": labels}
    status = {"allocatable": allocatable, "conditions": conditions}
    return {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": status}


def selector(question: Question, rank: int) -> Json:
    """What a member says about its node: neighbors in rank are on nodes far from each other, in one cluster."""
    if not question.pinned:
        return {}
    number = 3 * PER_CLUSTER + 37 * rank % PER_CLUSTER
    return {"nodeSelector": {"kubernetes.io/hostname": node_name(number)}}


def pods(question: Question, gang: int = 0) -> list[Json]:
    """The claims of the members, as the peer reads pods."""
    asked = spec(request(count=question.cards))
    return [
        {"claims": [new_claim(f"gang-{gang}-{number}", asked)], "release": -1, "floor": 0}
        for number in range(question.members)
    ]


def _holder(number: int, used: Sequence[int]) -> Json:
    names = Names(DRIVER)
    place = {"request": "cards", "driver": DRIVER, "pool": names.pool(node_name(number))}
    held = [{**place, "device": f"gpu-{index}"} for index in used]
    return held_claim(f"old-{number}", spec(request(count=len(used))), held, node_name(number))


def _empty(nodes: int) -> Sequence[Sequence[int]]:
    return [()] * nodes


def _fragmented(nodes: int) -> Sequence[Sequence[int]]:
    """70 % of the cards in use, and a few clusters with many nodes that are free."""
    random, found = Random("fragmented"), []
    for _ in range(nodes // PER_CLUSTER):
        free = random.choice((0.1, 0.15, 0.2, 0.25, 0.3, 0.75))
        found += [range(0 if random.random() < free else random.randint(5, CARDS)) for _ in range(PER_CLUSTER)]
    return found


def _short(nodes: int) -> Sequence[Sequence[int]]:
    """Each cluster has one node less that is free than the gang wants."""
    return [range(0 if number % PER_CLUSTER < SHORT_OF - 1 else 1) for number in range(nodes)]


def _holes(nodes: int) -> Sequence[Sequence[int]]:
    """Any four cards of each node are in use, so that nodes have different rails left."""
    random = Random("holes")
    return [sorted(random.sample(range(CARDS), 4)) for _ in range(nodes)]


STATES: dict[str, Callable[[int], Sequence[Sequence[int]]]] = {
    "empty": _empty,
    "fragmented": _fragmented,
    "short": _short,
    "holes": _holes,
}
"""The cards in use on each node."""
