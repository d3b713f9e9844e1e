"""The cards that nobody holds. Pure.

The API does not record when a card was given back: an allocation that is cleared leaves no trace. So only the longest
possible time is known, the age of the node.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cli.cards.card import cards_of
from driver.kube.api import Object
from driver.names import Names


@dataclass(frozen=True, slots=True)
class IdleNode:
    """A node with cards that nobody holds.

    Attributes:
        cards: the idle ones.
        all_cards: number of its cards.
        created: time stamp of the Node; "" if it is not known. None of the cards is idle for longer.
    """

    node: str
    cards: tuple[str, ...]
    all_cards: int
    types: tuple[str, ...] = ()
    created: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether nobody holds any card of the node."""
        return len(self.cards) == self.all_cards


def idle_nodes(
    slices: Iterable[Object], created: Mapping[str, str], used: Collection[tuple[str, str]], names: Names
) -> list[IdleNode]:
    """Return the nodes with idle cards: first those that are wholly idle, then the oldest.

    Args:
        created: time stamps of Nodes, by name.
        used: pool and name of each device in use.
    """
    found = [node for node in _nodes(slices, created, used, names) if node.cards]
    return sorted(found, key=lambda node: (not node.is_whole, node.created or "~", node.node))


def _nodes(
    slices: Iterable[Object], created: Mapping[str, str], used: Collection[tuple[str, str]], names: Names
) -> Iterator[IdleNode]:
    by_node: dict[str, list[Object]] = {}
    for part in slices:
        spec = part.get("spec")
        node = spec.get("nodeName") if isinstance(spec, dict) else None
        if isinstance(node, str):
            by_node.setdefault(node, []).append(part)
    held = dict[str, list[str]]()
    for pool, device in used:
        held.setdefault(pool, []).append(device)
    for node, parts in sorted(by_node.items()):
        cards = cards_of(node, parts, names)
        devices = held.get(names.pool(node), ())
        idle = [card for card in cards if not any(card.has(device) for device in devices)]
        types = tuple(sorted({card.type for card in idle if card.type}))
        yield IdleNode(node, tuple(card.name for card in idle), len(cards), types, created.get(node, ""))
