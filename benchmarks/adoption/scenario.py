"""Which pods come when, and which templates they name. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

NAMESPACES: Final = tuple(f"team-{number}" for number in range(10))
NAMES: Final = tuple(f"lode-adopt.nvidia.n{count}" for count in (1, 2, 3, 4)) + tuple(
    f"lode.{count}-gpu" for count in (1, 2, 3, 4)
)
PERIOD_SECONDS: Final = 60.0
"""For so long, the pods of a namespace name the same templates; then others, so that templates come and go."""
_AT_ONCE: Final = 2
"""How many templates a namespace uses in one period."""


@dataclass(frozen=True)
class Arrival:
    """One pod."""

    seconds: float
    """When it comes."""
    namespace: str
    name: str
    template: str


@dataclass(frozen=True)
class Scenario:
    """Pods at an even pace, in all namespaces in turns.

    Attributes:
        per_minute: pods.
        lives_seconds: how long a pod is kept after it was bound.
        unused_seconds: the controller's setting, how long a template is kept that no pod names.
    """

    nodes: int = 1000
    minutes: float = 5.0
    per_minute: int = 1000
    lives_seconds: float = 20.0
    unused_seconds: float = 30.0

    def arrivals(self) -> Iterator[Arrival]:
        """Yield the pods in the order in which they come."""
        for number in range(int(self.minutes * self.per_minute)):
            seconds = number * 60 / self.per_minute
            place = number % len(NAMESPACES)
            turn = int(seconds // PERIOD_SECONDS) * _AT_ONCE + (number // len(NAMESPACES)) % _AT_ONCE
            template = NAMES[(place + turn) % len(NAMES)]
            yield Arrival(seconds, NAMESPACES[place], f"pod-{number}", template)
