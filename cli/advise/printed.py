"""Advice and idle cards as text and for JSON. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from cli.advise.idle import IdleNode
from cli.advise.moves import Move, Moves, NoMoves
from cli.tables import age, table
from controller.allocation import CARD
from driver.wire import Json


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found for one pod or gang that waits."""

    kind: str
    key: str
    found: Moves | NoMoves

    def to_json(self) -> Json:
        """With the keys of docs/cards.md."""
        namespace, _, name = self.key.partition("/")
        head = {"kind": self.kind, "namespace": namespace, "name": name}
        if isinstance(self.found, NoMoves):
            return {**head, "possible": False, "decided": self.found.decided}
        return {
            **head,
            "possible": True,
            "best": self.found.best,
            "places": dict(self.found.places),
            "moves": [_move_json(move) for move in self.found.moves],
        }

    def text(self, now: float) -> str:
        """For people; ages count from ``now`` (seconds since the epoch)."""
        head = f"{self.kind} {self.key}"
        if isinstance(self.found, NoMoves):
            if self.found.decided:
                return f"{head}: no moves of pods let it run."
            return f"{head}: no moves were found that let it run, but not all were tried."
        nodes = ", ".join(sorted(set(self.found.places.values())))
        if not self.found.moves:
            return f"{head} can run now, on {nodes}, and nothing has to move."
        ended = sum(not move.target for move in self.found.moves)
        counts = [(len(self.found.moves) - ended, "moved"), (ended, "ended")]
        tail = "" if self.found.best else " There may be a cheaper way: not all were tried."
        rows = [_row(move, now) for move in self.found.moves]
        header = ("NAMESPACE", "POD", "CARDS", "PRIORITY", "AGE", "FROM", "TO", "DEVICES")
        moved = " and ".join(f"{count} {'pod' if count == 1 else 'pods'} {what}" for count, what in counts if count)
        return f"{head} could run, on {nodes}, if {moved}.{tail}\n{table(header, rows)}"


def idle_text(nodes: Sequence[IdleNode], now: float, most: int) -> str:
    """Return a table of the nodes with idle cards, at most so many."""
    if not nodes:
        return "No card is idle."
    rows = [
        (
            node.node,
            f"{len(node.cards)}/{node.all_cards}",
            ", ".join(node.types),
            ", ".join(node.cards),
            _since(node, now),
        )
        for node in nodes[:most]
    ]
    text = table(("NODE", "IDLE", "TYPE", "CARDS", "SINCE"), rows)
    return text if len(nodes) <= most else f"{text}\n... and {len(nodes) - most} more nodes"


def idle_json(nodes: Sequence[IdleNode]) -> list[Json]:
    """Return the nodes with idle cards for JSON; ``since`` is null, because the API does not tell."""
    return [
        {
            "node": node.node,
            "cards": list(node.cards),
            "allCards": node.all_cards,
            "types": list(node.types),
            "since": None,
            "notBefore": node.created or None,
        }
        for node in nodes
    ]


def stay_notes(stay: Mapping[str, int]) -> Iterator[str]:
    """Yield a note for each reason why pods with devices are not moved."""
    for reason, count in sorted(stay.items()):
        yield f"not moved: {count} {'pod' if count == 1 else 'pods'} that {reason}"


def _row(move: Move, now: float) -> tuple[str, ...]:
    namespace, _, name = move.pod.key.partition("/")
    return (
        namespace,
        name,
        f"{_cards(move):g}",
        str(move.pod.pod.priority),
        age(now - move.pod.created),
        move.pod.node,
        move.target or "<has to end>",
        ", ".join(device.rpartition("/")[2] for device in move.devices),
    )


def _cards(move: Move) -> float:
    return round(move.pod.parts / CARD, 3)


def _move_json(move: Move) -> Json:
    namespace, _, name = move.pod.key.partition("/")
    return {
        "namespace": namespace,
        "pod": name,
        "cards": _cards(move),
        "priority": move.pod.pod.priority,
        "from": move.pod.node,
        "to": move.target or None,
        "devices": list(move.devices),
    }


def _since(node: IdleNode, now: float) -> str:
    try:
        return f"unknown, at most {age(now - datetime.fromisoformat(node.created).timestamp())}"
    except ValueError:
        return "unknown"
