"""Trying out where pods would go, one on top of the other, without deciding anything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType

from controller.allocation.reasons.reasons import Unsatisfiable
from driver.model import Allocation, Claim


@dataclass(frozen=True, slots=True)
class Placed:
    """A node that takes all claims of a pod, and one allocation per claim in order."""

    node: str
    allocations: tuple[Allocation, ...]


Eligible = Callable[[str], bool] | None
"""Whether a node may be chosen; None if all may."""
Place = Callable[[Sequence[Claim], Eligible], Placed | Unsatisfiable | None]


class Trial:
    """Pods placed on top of the fleet's state, one after the other, and taken back.

    Meanwhile the fleet counts them as in use; no event may reach it before they are undone. Leaving the ``with`` block
    undoes everything, and then the fleet is as it was before.
    """

    def __init__(self, place: Place, assume: Callable[[str, Allocation], None], forget: Callable[[str], None]):
        self._place = place
        self._assume = assume
        self._forget = forget
        self._held: list[list[str]] = []
        self._number = 0

    def __enter__(self) -> "Trial":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo(len(self._held))

    def put(self, claims: Sequence[Claim], eligible: Eligible = None) -> Placed | Unsatisfiable | None:
        """Place the claims as ``Fleet.place`` does and count them as in use. The same claims may be put repeatedly."""
        placed = self._place(claims, eligible)
        if isinstance(placed, Placed):
            self.hold(claims, placed.allocations)
        return placed

    def hold(self, claims: Sequence[Claim], allocations: Sequence[Allocation]) -> None:
        """Count these allocations of a pod's claims as in use."""
        held: list[str] = []
        for claim, allocation in zip(claims, allocations, strict=True):
            # A name of its own: the claim may be held already, and the same claims may be put again.
            self._number += 1
            held.append(f"{claim.uid}#{self._number}")
            self._assume(held[-1], allocation)
        self._held.append(held)

    def undo(self, pods: int = 1) -> None:
        """Take back the last ``pods`` that were put."""
        for _ in range(pods):
            for uid in reversed(self._held.pop()):
                self._forget(uid)
