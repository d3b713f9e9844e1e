"""The tasks of a search: demands with their eligible devices."""

from dataclasses import dataclass

from controller.allocation.requests.demands import Demand, RequestChoice
from controller.allocation.search.attempt import Candidate


@dataclass(frozen=True, slots=True)
class Option:
    """A choice with its candidates in order; it takes ``wanted`` of them."""

    choice: RequestChoice
    candidates: tuple[Candidate, ...]
    wanted: int


@dataclass(frozen=True, slots=True)
class Task:
    """A demand with its options. Options that cannot be satisfied even alone are left out."""

    demand: Demand
    options: tuple[Option, ...]
