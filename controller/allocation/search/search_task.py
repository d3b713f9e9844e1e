"""What a search has to find: requests with the devices that could serve them."""

from dataclasses import dataclass

from controller.allocation.requests.demand import Choice, Demand
from controller.allocation.search.attempt import Candidate


@dataclass(frozen=True, slots=True)
class Option:
    """A choice with its candidates in order; ``wanted`` is how many of them it takes."""

    choice: Choice
    candidates: tuple[Candidate, ...]
    wanted: int


@dataclass(frozen=True, slots=True)
class Task:
    """A demand with its options. Options that cannot be satisfied alone have been left out."""

    demand: Demand
    options: tuple[Option, ...]
