"""What must hold for nodes that are held back for a gang: whoever uses them meanwhile does not put off its start."""

from collections.abc import Callable, Iterable
from typing import Protocol

from controller.reconcile.deadlines import START_SECONDS
from controller.state import State
from controller.waiting import HeldDomain, rank_of, rank_of_gang
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus
from driver.clock import Clock


class Holding(Protocol):
    """What the checks look at of a controller."""

    @property
    def state(self) -> State:
        """What it knows."""
        ...

    @property
    def held_domains(self) -> Iterable[HeldDomain]:
        """The nodes that are held back for gangs."""
        ...


class HoldChecks:
    """Watches what one process of a controller holds back, and what it places there.

    Args:
        controller: the process.
        found: what is wrong is added here.
    """

    def __init__(self, controller: Callable[[], Holding], clock: Clock, found: list[str]):
        self._controller = controller
        self._clock = clock
        self._found = found
        self._last: dict[str, HeldDomain] = {}

    def look(self, sequence: WriteSequence) -> None:
        """Whoever comes after a gang is placed on its nodes only if it has ended before the gang can start."""
        kind, key = sequence.subject
        steps = (step for step in sequence.steps if isinstance(step, PatchClaimStatus))
        node = next((step.allocation.node_name for step in steps if step.allocation is not None), "")
        state = self._controller().state
        pod = state.pods.get(key) if kind == "pod" else None
        if not node or pod is None or pod.node_name:
            return
        gang = state.gangs.of(key)
        rank = rank_of_gang([state.pods[one] for one in state.gangs.members(gang)]) if gang else rank_of(pod)
        for held in self._controller().held_domains:
            if node in held.nodes and held.gang != gang and held.rank < rank:
                ends = None if pod.limit_seconds is None else self._clock.now() + START_SECONDS + pod.limit_seconds
                if ends is None or held.starts is None or ends > held.starts:
                    predicted = f"which can start at {held.starts}"
                    text = (
                        f"pod {key}, which ends at {ends}, is placed on {node}, held for gang {held.gang}, {predicted}"
                    )
                    self._found.append(text)

    def follow(self) -> None:
        """A predicted start is not put off before it has passed."""
        now, held = self._clock.now(), {one.gang: one for one in self._controller().held_domains}
        for gang, before in self._last.items():
            after = held.get(gang)
            if after is None or after.nodes != before.nodes or before.starts is None or before.starts <= now:
                continue
            if after.starts is None or after.starts > before.starts:
                self._found.append(f"the start of gang {gang} is put off from {before.starts} to {after.starts}")
        self._last = held
