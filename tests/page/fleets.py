"""Fleets for the page, from few words."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from cli.fleetview import CardHolding, CardView, FleetCard, FleetView, OfferedPart
from cli.ui.contents import FleetContents, ShownClaim, ShownNode, ShownPod
from driver.kinds import CardUse, Closure

GIB = 1 << 30
SINCE = 1795761600
_PARTS = (
    OfferedPart("", "whole", memory=80 * GIB, cores=100),
    OfferedPart("-share", "shared", memory=80 * GIB, cores=100),
    OfferedPart("-mig-1g-10gb-0", "partitioned", "1g.10gb", 10 * GIB, 14),
)
_SUFFIXES = {"whole": "", "shared": "-share", "partitioned": "-mig-1g-10gb-0"}


def card(place: str, *held: CardHolding, closed: Sequence[Closure] = (), ib: str = "", kind: str = "H100") -> CardView:
    """A card at ``NODE/CARD``."""
    node, _, name = place.partition("/")
    return CardView(FleetCard(node, name, type=kind, ib_cluster=ib, parts=_PARTS), held, tuple(closed))


def held(place: str, use: CardUse, key: str, *pods: str, gib: int = 80, cores: int = 100) -> CardHolding:
    """What the claim ``NAMESPACE/NAME`` holds of a card, for these pods."""
    namespace, _, claim = key.partition("/")
    device = f"{place.partition('/')[2]}{_SUFFIXES[use]}"
    return CardHolding(namespace, claim, device, use, pods, gib * GIB, cores)


def whole(place: str, key: str, *pods: str, closed: Sequence[Closure] = (), ib: str = "") -> CardView:
    """A card that one claim has."""
    return card(place, held(place, "whole", key, *pods), closed=closed, ib=ib)


def contents(cards: Iterable[CardView], *more: ShownPod, **others: Any) -> FleetContents:
    """What is known of a cluster with these cards, whose holders run, and with more pods."""
    cards = tuple(cards)
    names = dict.fromkeys(one.facts.node for one in cards)
    claims, pods = {}, {one.key: one for one in more}
    for one in cards:
        for holding in one.holdings:
            claims[holding.key] = ShownClaim(holding.namespace, holding.claim, True, holding.users, SINCE)
            for user in holding.users:
                running = ShownPod(holding.namespace, user, "running", one.facts.node)
                pods.setdefault(running.key, running)
    made = FleetContents(FleetView(cards), {name: ShownNode(True, True) for name in names})
    return replace(made, claims=tuple(claims.values()), pods=tuple(pods.values()), **others)


def waiting(key: str, gang: str = "", message: str = "0 of 3 nodes can take the pod.") -> ShownPod:
    """A pod that waits at our gate."""
    namespace, _, name = key.partition("/")
    return ShownPod(namespace, name, "waiting", "", gang, (), "Unallocatable", message, SINCE)


def every_state() -> FleetContents:
    """Two fabrics and a node without one; a card in each state, pods that wait, and a gang."""
    shared = [
        held("gpu-1/gpu-2", "shared", "team-b/notebook", "notebook-7d4", gib=20, cores=25),
        held("gpu-1/gpu-2", "shared", "team-b/chat", "chat-0", gib=24, cores=30),
    ]
    cut = held("gpu-1/gpu-3", "partitioned", "team-a/eval", "eval-0", gib=10, cores=14)
    cards = [
        whole("gpu-1/gpu-0", "team-a/train-0-gpu", "train-0", ib="ib-a"),
        whole("gpu-1/gpu-1", "team-a/train-1-gpu", "train-1", closed=["cordoned"], ib="ib-a"),
        card("gpu-1/gpu-2", *shared, ib="ib-a"),
        card("gpu-1/gpu-3", cut, ib="ib-a"),
        card("gpu-1/gpu-4", ib="ib-a"),
        card("gpu-1/gpu-5", ib="ib-a"),
        card("gpu-2/gpu-0", closed=["unhealthy"], ib="ib-b"),
        card("gpu-2/gpu-1", closed=["foreign"], ib="ib-b"),
        card("gpu-2/gpu-2", closed=["cordoned"], ib="ib-b"),
        whole("gpu-2/gpu-3", "team-b/old", "old-0", closed=["cordoned", "unhealthy"], ib="ib-b"),
        card("gpu-2/gpu-4", closed=["releasing"], ib="ib-b"),
        whole("gpu-2/gpu-5", "team-b/lost", closed=["unpublished"], ib="ib-b"),
        card("npu-1/npu-0", kind="310P"),
        card("npu-1/npu-1", kind="310P"),
    ]
    gang = {"namespace": "team-a", "gang": "train", "members": 2, "size": 4, "needed": 4, "allocated": 0, "running": 0}
    gang |= {"nodes": 0, "cards": 0, "ibClusters": ["ib-a"], "reason": "GangWaits", "message": "2 of 4 have a place"}
    pods = [
        waiting("team-a/train-2", "team-a/train"),
        waiting("team-a/train-3", "team-a/train"),
        waiting("team-b/late"),
    ]
    return contents(cards, *pods, gangs=(gang,))


def large(nodes: int, cards: int = 8, fabric: int = 32) -> FleetContents:
    """Many nodes, in fabrics of so many each; two cards of three are held."""
    uses: tuple[CardUse, ...] = ("whole", "shared", "whole", "free", "free", "partitioned")
    numbers = itertools.count()
    made = []
    for node in range(nodes):
        for index in range(cards):
            number, place = next(numbers), f"node-{node:04}/gpu-{index}"
            use = uses[number * 7 % len(uses)]
            gib, some = 80 if use == "whole" else 30, list[CardHolding]()
            if use != "free":
                key = f"team-{number % 40}/claim-{number}"
                some = [held(place, use, key, f"pod-{number}", gib=gib, cores=gib * 100 // 80)]
            closed: list[Closure] = ["unhealthy"] if number % 397 == 0 else []
            made.append(card(place, *some, closed=closed, ib=f"ib-{node // fabric}"))
    return contents(made)
