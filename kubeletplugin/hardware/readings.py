"""What a card measures of itself at the moment, as values. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from driver.errors import TransientFault

Measure = Literal["utilization", "memoryUsed", "temperature", "power"]
"""``utilization``: the part of the last moments in which the card computed, of 1. ``memoryUsed``: bytes of its memory.
``temperature``: degrees Celsius. ``power``: watts."""
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)


@dataclass(frozen=True, slots=True)
class Readings:
    """The readings of one card. A measure that is in neither field is one that the card or its driver does not have."""

    values: Mapping[Measure, float] = field(default_factory=dict)
    unread: frozenset[Measure] = frozenset()
    """Measures that could not be read this time. They are never 0 for that."""


def ask_each(questions: Mapping[Measure, Callable[[], float | None]]) -> Readings:
    """The answers: None of a measure that there is not, and a TransientFault of one that cannot be read now."""
    values: dict[Measure, float] = {}
    unread: set[Measure] = set()
    for measure, question in questions.items():
        try:
            value = question()
        except TransientFault:
            unread.add(measure)
            continue
        if value is not None:
            values[measure] = value
    return Readings(values, frozenset(unread))


def together(parts: Sequence[Readings]) -> Readings:
    """The readings of a card of several chips. It has a measure if all of them have it, and it is read if all are."""
    unread = frozenset(measure for part in parts for measure in part.unread)
    common = [measure for measure in MEASURES if all(measure in part.values for part in parts)]
    return Readings({measure: _OF_ALL[measure]([part.values[measure] for part in parts]) for measure in common}, unread)


def _mean(values: Iterable[float]) -> float:
    every = tuple(values)
    return sum(every) / len(every)


_OF_ALL: Final[Mapping[Measure, Callable[[Iterable[float]], float]]] = {
    "utilization": _mean,
    "memoryUsed": sum,
    "temperature": max,
    "power": sum,
}
