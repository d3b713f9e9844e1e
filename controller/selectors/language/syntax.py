"""What a CEL expression is made of. Every node knows its position in the text."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant."""

    position: int
    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A variable or type; ``absolute`` (a leading dot) looks past the variables of macros."""

    position: int
    name: str
    absolute: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """``operand.field``; ``test`` for has(), ``optional`` for ``.?``."""

    position: int
    operand: "Node"
    field: str
    test: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """``operand[key]``; ``optional`` for ``[?key]``."""

    position: int
    operand: "Node"
    key: "Node"
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function, method (``target`` set) or operator (``_+_``)."""

    position: int
    function: str
    target: "Node | None"
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    """A list literal; ``optional`` holds the positions of ``?`` elements."""

    position: int
    items: tuple["Node", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """A map literal of (key, value, optional)."""

    position: int
    entries: tuple[tuple["Node", "Node", bool], ...]


FoldKind = Choice[
    "all", "exists", "exists_one", "map", "filter", "transformList", "transformMap", "transformMapEntry", "sortBy"
]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """A macro that walks a list or map. ``body`` is the predicate, or what is made of each element."""

    position: int
    kind: FoldKind
    range: "Node"
    variables: tuple[str, ...]
    body: "Node"
    where: "Node | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Bind:
    """``cel.bind(name, value, body)``."""

    position: int
    name: str
    value: "Node"
    body: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class OptionalMap:
    """``target.optMap(name, body)``, or optFlatMap if ``flat``."""

    position: int
    target: "Node"
    name: str
    body: "Node"
    flat: bool


Node = Literal | Name | Select | Index | Call | ListOf | MapOf | Fold | Bind | OptionalMap


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly inside ``node``, in the order they are written."""
    match node:
        case Literal() | Name():
            return ()
        case Select(operand=operand):
            return (operand,)
        case Index(operand=operand, key=key):
            return (operand, key)
        case Call(target=target, args=args):
            return args if target is None else (target, *args)
        case ListOf(items=items):
            return items
        case MapOf(entries=entries):
            return tuple(part for key, value, _ in entries for part in (key, value))
        case Fold(range=range_, body=body, where=where):
            return (range_, body) if where is None else (range_, where, body)
        case Bind(value=value, body=body):
            return (value, body)
        case OptionalMap(target=target, body=body):
            return (target, body)


def walk(node: Node) -> Iterator[Node]:
    """``node`` and all nodes inside it, each before those inside it, in the order they are written."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend(reversed(children(found)))
