"""The syntax tree of a CEL expression. Each node has its position in the text.

Macros are nodes of their own (`Comprehension`, `Bind`, `OptionalMap`), not the loops that cel-go expands them to.
Nodes compare by identity, so that the checker and the compiler can use them as keys.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as Choice


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A literal."""

    position: int
    value: object


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A variable or type. An ``absolute`` one (with a leading dot) skips the variables of macros."""

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
    """A call of a function, of a method (``target`` is set) or of an operator (such as ``_+_``)."""

    position: int
    function: str
    target: "Node | None"
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    """A list literal. ``optional`` holds the indexes of the elements that are written with ``?``."""

    position: int
    items: tuple["Node", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """A map literal of (key, value, optional)."""

    position: int
    entries: tuple[tuple["Node", "Node", bool], ...]


Macro = Choice[
    "all", "exists", "exists_one", "map", "filter", "transformList", "transformMap", "transformMapEntry", "sortBy"
]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A macro that iterates over a list or map.

    Attributes:
        kind: the macro.
        range: the list or map.
        variables: the element (of a map, the key); or, if two, the index or key and the element.
        body: the predicate, or the new value for each element.
        where: the condition on the elements to use, for macros that have one.
    """

    position: int
    kind: Macro
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


Node = Literal | Name | Select | Index | Call | ListOf | MapOf | Comprehension | Bind | OptionalMap


def children(node: Node) -> tuple[Node, ...]:
    """The operands of ``node``, in the order of the text."""
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
        case Comprehension(range=range_, body=body, where=where):
            return (range_, body) if where is None else (range_, where, body)
        case Bind(value=value, body=body):
            return (value, body)
        case OptionalMap(target=target, body=body):
            return (target, body)


def walk(node: Node) -> Iterator[Node]:
    """``node`` and all nodes inside it, each before its operands, in the order of the text."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(children(node)))
