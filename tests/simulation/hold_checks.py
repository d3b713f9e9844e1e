"""Invariants of held nodes.

A pod that uses the nodes held for a gang does not delay the start of the gang. Each hold ends in time, and then later
pods get their turn. The number of held nodes has a limit, and nodes are held only for pods that want devices.
"""

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from controller.reconcile.prospects import START_SECONDS
from controller.state import State
from controller.waiting import Hold, Rank, rank_of, rank_of_gang
from controller.writing import WriteSequence
from controller.writing.steps import PatchClaimStatus
from driver.clock import Clock
from driver.model import Allocation
from driver.settings import HoldSettings


class HoldingController(Protocol):
    """The parts of a controller that the checks read."""

    @property
    def state(self) -> State:
        """The controller's state."""
        ...

    @property
    def held_domains(self) -> Iterable[Hold]:
        """The nodes that are held back for gangs."""
        ...

    @property
    def held_nodes(self) -> Iterable[Hold]:
        """The nodes that are held back for single pods."""
        ...

    @property
    def most_held(self) -> int:
        """Limit of the nodes held for gangs at a time, and of those for single pods."""
        ...

    @property
    def decides(self) -> bool:
        """Whether it may decide now."""
        ...

    def next_due(self) -> float | None:
        """Time of its next work (monotonic seconds)."""
        ...


@dataclass(frozen=True, slots=True)
class _Hold:
    """Nodes that are held back."""

    who: str
    rank: Rank
    nodes: frozenset[str]
    ends: float


class HoldChecks:
    """Checks the holds of one controller process, and its placements on held nodes.

    Args:
        controller: the process.
        found: what is wrong is added here.

    Attributes:
        changed_at: when nodes were last held back for a gang or a pod, or no longer (monotonic seconds).
    """

    def __init__(
        self, controller: Callable[[], HoldingController], clock: Clock, found: list[str], limits: HoldSettings
    ):
        self._controller = controller
        self._clock = clock
        self._found = found
        self._limits = limits
        self.changed_at = -math.inf
        self._last: dict[str, Hold] = {}
        self._holds: dict[str, _Hold] = {}
        self._nodes: dict[str, frozenset[str]] = {}
        """The nodes that were held back at ``changed_at``, by the gang or pod that they were held back for."""
        self._decided: dict[str, Allocation | None] = {}
        """The last allocation of each claim (key) that was looked at."""
        self._ran_out: dict[str, tuple[float, int]] = {}
        """The time at which a hold of each node ran out, and ``Rank.below`` of its pod or gang."""

    def look(self, sequence: WriteSequence) -> None:
        """Check that a pod that comes after a gang is placed on its held nodes only if it ends before the gang can
        start."""
        kind, key = sequence.subject
        steps = [step for step in sequence.steps if isinstance(step, PatchClaimStatus)]
        # A write that had no answer is repeated as it was decided, whatever is held back since.
        steps = [step for step in steps if self._decided.get(step.target.key) != step.allocation]
        self._decided |= {step.target.key: step.allocation for step in steps}
        node = next((step.allocation.node_name for step in steps if step.allocation is not None), "")
        state = self._controller().state
        pod = state.pods.get(key) if kind == "pod" else None
        if not node or pod is None or pod.node_name:
            return
        gang = state.gangs.gang_of(key)
        rank = (
            rank_of_gang(state, [state.pods[one] for one in state.gangs.members(gang)]) if gang else rank_of(state, pod)
        )
        for held in self._controller().held_domains:
            if node in held.nodes and held.gang != gang and held.rank < rank:
                ends = (
                    None if pod.limit_seconds is None else self._clock.monotonic() + START_SECONDS + pod.limit_seconds
                )
                if ends is None or held.starts is None or ends > held.starts:
                    predicted = f"which can start at {held.starts}"
                    text = (
                        f"pod {key}, which ends at {ends}, is placed on {node}, held for gang {held.gang}, {predicted}"
                    )
                    self._found.append(text)

    def follow(self) -> None:
        """Check that the number of held nodes is bounded, and that a predicted start is not postponed before it has
        passed."""
        self._follow_bounds()
        self._follow_starts()

    def _follow_bounds(self) -> None:
        controller, now = self._controller(), self._clock.monotonic()
        if not controller.decides:
            # What a leader remembers of pauses ends with its term.
            self._holds.clear()
            self._ran_out.clear()
        domains = {one.gang: _Hold(one.gang, one.rank, one.nodes, one.ends) for one in controller.held_domains}
        pods = {one.rank.pod: _Hold(one.rank.pod, one.rank, one.nodes, one.ends) for one in controller.held_nodes}
        holds = domains | pods
        new = [one for name, one in holds.items() if name not in self._holds]
        if new and not self._limits.enabled:
            self._found.append(f"nodes are held back for {new[0].who}, although that is turned off")
        for one in new:
            self._check_new(one, now)
        if new:
            self._check_share(domains.values(), controller.most_held)
            self._check_share(pods.values(), controller.most_held)
        ended = [one for one in holds.values() if one.ends < now]
        if ended and controller.decides and ((due := controller.next_due()) is None or due > now):
            for one in ended:
                self._found.append(f"{sorted(one.nodes)} are held back for {one.who} after {one.ends}, at {now}")
        for name, one in self._holds.items():
            if name not in holds and one.ends <= now and self._waits(name):
                self._ran_out |= dict.fromkeys(one.nodes, (now, one.rank.below))
        self._holds = holds
        nodes = {name: one.nodes for name, one in holds.items()}
        if nodes != self._nodes:
            self.changed_at, self._nodes = now, nodes

    def _check_new(self, hold: _Hold, now: float) -> None:
        state = self._controller().state
        for node in sorted(hold.nodes):
            at, below = self._ran_out.get(node, (-self._limits.pause_seconds, 0))
            if now < at + self._limits.pause_seconds and hold.rank.below >= below:
                self._found.append(f"{node} is held back for {hold.who} at {now}, after a hold that ran out at {at}")
        if hold.ends > now + self._limits.for_seconds:
            self._found.append(f"{sorted(hold.nodes)} are held back for {hold.who} until {hold.ends}, at {now}")
        # The hold of a pod that is gone ends when the controller comes to it.
        members = [state.pods[key] for key in state.gangs.members(hold.who) or [hold.who] if key in state.pods]
        if members and not any(pod.claim_keys for pod in members):
            self._found.append(f"{sorted(hold.nodes)} are held back for {hold.who}, which wants no devices")

    def _check_share(self, holds: Collection[_Hold], most: int) -> None:
        count = sum(len(one.nodes) for one in holds)
        if count > most and len(holds) > 1:
            self._found.append(f"{count} nodes are held back for {[one.who for one in holds]}, and may be {most}")

    def _waits(self, name: str) -> bool:
        state = self._controller().state
        pods = [state.pods[pod] for pod in state.gangs.members(name) or [name] if pod in state.pods]
        claims = [state.claims[key].claim for pod in pods for key in pod.claim_keys if key in state.claims]
        return bool(pods) and not any(claim.allocation for claim in claims)

    def _follow_starts(self) -> None:
        now, held = self._clock.monotonic(), {one.gang: one for one in self._controller().held_domains}
        for gang, before in self._last.items():
            after = held.get(gang)
            if after is None or after.nodes != before.nodes or before.starts is None or before.starts <= now:
                continue
            if not self._waits(gang):
                # The nodes are held for its later members now.
                continue
            if after.starts is None or after.starts > before.starts:
                self._found.append(f"the start of gang {gang} is put off from {before.starts} to {after.starts}")
        self._last = held
