"""The document of a fleet: everything that the page shows, as JSON in columns. ``docs/ui.md`` describes it. Pure.

A fleet has 40,000 cards, so names are written once and pointed at by number, and columns of like values compress well.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar, get_args

from cli.fleetview.cards import CardHolding, CardView
from cli.ui.contents import MOST_MESSAGE, MOST_REASON, FleetContents, KindGap, PodPhase, ShownClaim, ShownPod
from driver.kinds import CARD_STATES, Closure, card_state
from driver.limits import bounded
from driver.wire import Json

SCHEMA: Final = 1
"""Grows when a reader of the document has to change."""
_MOST_NOTES: Final = 100
UNKNOWN: Final = -1
"""Stands for what is not known, or does not exist, in columns of numbers."""
Show = Callable[[str], bool]
"""Whether the reader may see the names in a namespace; "" stands for all of them, and for what has none."""

_Value = TypeVar("_Value", str, tuple[Closure, ...])


def whole_document(contents: FleetContents, driver: str, shows: Show = lambda _: True) -> Json:
    """Return the document for somebody who may see these namespaces.

    Of other namespaces it has amounts and states of cards, but no name of a claim, pod or gang. Somebody who may not
    see every namespace gets no notes: they name objects.
    """
    made = _Document(contents, shows)
    cards, holdings = made.cards()
    pods, claims, gangs = made.pods(), made.claims(), made.gangs()
    return {
        "schema": SCHEMA,
        "driver": driver,
        "states": list(CARD_STATES),
        "phases": list(get_args(PodPhase)),
        "nodes": made.nodes(),
        "cards": cards,
        "holdings": holdings,
        "claims": claims,
        "pods": pods,
        "gangs": gangs,
        **made.tables(),
        "notes": _some(contents.notes) if made.shows_all else [],
        "missing": _gaps(contents.missing),
        "problems": _gaps(contents.problems),
    }


class _Texts(Generic[_Value]):
    """Values, each once, and their numbers."""

    def __init__(self, values: Iterable[_Value] = ()):
        self._numbers: dict[_Value, int] = {value: number for number, value in enumerate(values)}

    def number(self, value: _Value | None) -> int:
        """The number of a value; ``UNKNOWN`` of nothing."""
        if value is None or value == "":
            return UNKNOWN
        return self._numbers.setdefault(value, len(self._numbers))

    def values(self) -> list[_Value]:
        """The values in the order of their numbers."""
        return list(self._numbers)


class _Document:
    """A document under way: each table adds to the texts that it points at."""

    def __init__(self, contents: FleetContents, shows: Show):
        self._contents = contents
        self._texts: dict[str, _Texts[str]] = {
            name: _Texts()
            for name in (
                "types",
                "ibClusters",
                "nvlinkDomains",
                "namespaces",
                "cardNames",
                "deviceNames",
                "reasons",
                "messages",
            )
        }
        self._closures: _Texts[tuple[Closure, ...]] = _Texts(((),))
        by_node = contents.view.by_node()
        self._by_node: dict[str, Sequence[CardView]] = {
            name: by_node.get(name, ()) for name in sorted({*by_node, *contents.nodes})
        }
        self._node_numbers = {name: number for number, name in enumerate(self._by_node)}
        seen: dict[str, bool] = {}

        def may_show(namespace: str) -> bool:
            if namespace not in seen:
                seen[namespace] = shows(namespace)
            return seen[namespace]

        self._claims = _claims_of(contents, may_show)
        self._pods = _pods_of(contents, self._claims.values(), may_show)
        self._gangs = {f"{one['namespace']}/{one['gang']}": one for one in contents.gangs if may_show(one["namespace"])}
        self._claim_numbers, self._pod_numbers, self._gang_numbers = (
            {key: number for number, key in enumerate(table)} for table in (self._claims, self._pods, self._gangs)
        )
        self.shows_all = may_show("")

    def nodes(self) -> Json:
        known = self._contents.nodes
        return {
            "name": list(self._by_node),
            "cards": [len(cards) for cards in self._by_node.values()],
            "ready": [int(known[name].ready) if name in known else UNKNOWN for name in self._by_node],
            "open": [int(known[name].open) if name in known else UNKNOWN for name in self._by_node],
        }

    def cards(self) -> tuple[Json, Json]:
        """The cards, and what is held of them."""
        ordered = [card for cards in self._by_node.values() for card in cards]
        texts, uses = self._texts, {state: number for number, state in enumerate(CARD_STATES)}
        cards = {
            "name": [texts["cardNames"].number(card.facts.name) for card in ordered],
            "type": [texts["types"].number(card.facts.type) for card in ordered],
            "ibCluster": [texts["ibClusters"].number(card.facts.ib_cluster) for card in ordered],
            "nvlinkDomain": [texts["nvlinkDomains"].number(card.facts.nvlink_domain) for card in ordered],
            "memory": [card.facts.memory for card in ordered],
            "state": [uses[card_state(card.use, card.closures)] for card in ordered],
            "use": [uses[card.use] for card in ordered],
            "closure": [self._closures.number(card.closures) for card in ordered],
            "memoryHeld": [card.memory_held for card in ordered],
            "coresHeld": [card.cores_held for card in ordered],
            "largestFree": [card.largest_free for card in ordered],
            "holdings": [len(card.holdings) for card in ordered],
        }
        held = [one for card in ordered for one in card.holdings]
        holdings = {
            "claim": [self._claim_numbers.get(one.key, UNKNOWN) for one in held],
            "device": [texts["deviceNames"].number(one.device) for one in held],
            "use": [uses[one.use] for one in held],
            "memory": [_number(one.memory) for one in held],
            "cores": [_number(one.cores) for one in held],
            "looksOn": [int(one.looks_on) for one in held],
        }
        return cards, holdings

    def claims(self) -> Json:
        claims = self._claims.values()
        return {
            "namespace": [self._texts["namespaces"].number(one.namespace) for one in claims],
            "name": [_after_its_pod(one) for one in claims],
            "allocated": [int(one.allocated) for one in claims],
            "pods": [[self._pod_numbers[f"{one.namespace}/{pod}"] for pod in one.pods] for one in claims],
            "since": [one.since for one in claims],
        }

    def pods(self) -> Json:
        pods, texts, phases = self._pods.values(), self._texts, get_args(PodPhase)
        return {
            "namespace": [texts["namespaces"].number(one.namespace) for one in pods],
            "name": [one.name for one in pods],
            "node": [self._node_numbers.get(one.node, UNKNOWN) for one in pods],
            "phase": [phases.index(one.phase) for one in pods],
            "gang": [self._gang_numbers.get(one.gang, UNKNOWN) for one in pods],
            "awaits": [[self._claim_numbers[key] for key in one.awaits if key in self._claim_numbers] for one in pods],
            "reason": [texts["reasons"].number(one.reason) for one in pods],
            "message": [texts["messages"].number(one.message) for one in pods],
            "since": [one.since for one in pods],
        }

    def gangs(self) -> Json:
        gangs, texts = list(self._gangs.values()), self._texts
        return {
            "namespace": [texts["namespaces"].number(one["namespace"]) for one in gangs],
            "name": [one["gang"] for one in gangs],
            **{
                name: [_number(one.get(name)) for one in gangs]
                for name in ("members", "size", "needed", "allocated", "running", "nodes")
            },
            "cards": [one.get("cards", 0) for one in gangs],
            "ibClusters": [[texts["ibClusters"].number(name) for name in one.get("ibClusters", ())] for one in gangs],
            "reason": [texts["reasons"].number(bounded(one.get("reason") or "", MOST_REASON)) for one in gangs],
            "message": [texts["messages"].number(bounded(one.get("message") or "", MOST_MESSAGE)) for one in gangs],
        }

    def tables(self) -> Mapping[str, Any]:
        """The texts that everything else points at."""
        texts = {name: known.values() for name, known in self._texts.items()}
        return {**texts, "closures": [list(one) for one in self._closures.values()]}


def _claims_of(contents: FleetContents, shows: Show) -> dict[str, ShownClaim]:
    """The claims by key: in the order of the cards that they hold, then the others by name."""
    known = {one.key: one for one in contents.claims}
    found: dict[str, ShownClaim] = {}
    for card in contents.view.cards:
        for holding in card.holdings:
            if holding.key not in found and shows(holding.namespace):
                found[holding.key] = known.get(holding.key) or _claim_of(holding)
    for key in sorted(known.keys() - found.keys()):
        if shows(known[key].namespace):
            found[key] = known[key]
    return found


def _after_its_pod(claim: ShownClaim) -> str:
    """The name of a claim; where it begins with that of its first pod, as Kubernetes makes it, ``*`` stands for that.

    The names of claims would be a third of the document, as it is sent.
    """
    if claim.pods and claim.name.startswith(f"{claim.pods[0]}-"):
        return f"*{claim.name.removeprefix(claim.pods[0])}"
    return claim.name


def _claim_of(holding: CardHolding) -> ShownClaim:
    return ShownClaim(holding.namespace, holding.claim, allocated=True)


def _pods_of(contents: FleetContents, claims: Iterable[ShownClaim], shows: Show) -> dict[str, ShownPod]:
    """The pods by key: in the order of the claims that are reserved for them, then the others by name."""
    known = {one.key: one for one in contents.pods}
    found: dict[str, ShownPod] = {}
    for claim in claims:
        for name in claim.pods:
            key = f"{claim.namespace}/{name}"
            if key not in found:
                found[key] = known.get(key) or ShownPod(claim.namespace, name)
    for key in sorted(known.keys() - found.keys()):
        if shows(known[key].namespace):
            found[key] = known[key]
    return found


def _some(notes: Sequence[str]) -> list[str]:
    """The first notes, and how many more there are."""
    more = len(notes) - _MOST_NOTES
    return [*notes[:_MOST_NOTES], *([f"{more} more objects are left out"] if more > 0 else [])]


def _number(value: object) -> int:
    return value if isinstance(value, int) else UNKNOWN


def _gaps(gaps: Iterable[KindGap]) -> list[Json]:
    return [{"kind": one.kind, "message": one.message, **({"since": one.since} if one.since else {})} for one in gaps]
