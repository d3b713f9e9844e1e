"""Places that are kept for pods which preempt others, from the decision until they have their devices. Pure.

A kept place is a node with devices that others still hold, or have just given up. It counts as used: everybody sees it
so but the pod that it is kept for, the other members of its gang, and pods of higher priority. These may take it, as
they may take what kube-scheduler keeps for a nominated pod; whoever it was kept for is then decided about anew.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from controller.cluster import Cluster
from driver.model import Allocation, Claim, Result


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """What is kept for one pod.

    Attributes:
        pod: ``namespace/name``.
        priority: pods of higher priority may take it. The least of its gang, if it is a member.
        allocations: what its claims get. A claim that members of a gang share is in the place of one of them.
        evicts: whether pods are evicted for it, or were. If not, it is what pods leave that are ending anyway; then
            this place is not better than any other that becomes free.
    """

    pod: str
    uid: str
    node: str
    priority: int
    allocations: tuple[tuple[Claim, Allocation], ...] = ()
    evicts: bool = True

    @property
    def given(self) -> Sequence[Allocation]:
        """What its claims get, without these."""
        return [allocation for _, allocation in self.allocations]


@dataclass(slots=True)
class _Kept:
    place: KeptPlace
    held: dict[str, Allocation]
    """What counts as used, by the name of its holder."""


class KeptPlaces:
    """The place of each pod that preempts others."""

    def __init__(self, cluster: Cluster):
        self._cluster = cluster
        self._ledger = cluster.devices.ledger
        self._quotas = cluster.quotas
        self._kept: dict[str, _Kept] = {}

    def __bool__(self) -> bool:
        return bool(self._kept)

    def for_pod(self, pod: str) -> KeptPlace | None:
        """Return the place of a pod (key); None if none is kept for it."""
        kept = self._kept.get(pod)
        return kept.place if kept else None

    def on(self, nodes: Collection[str]) -> list[str]:
        """Return the pods with a place on one of these nodes; all that have a place if "" is one."""
        return [pod for pod, kept in self._kept.items() if "" in nodes or kept.place.node in nodes]

    def movable(self) -> list[str]:
        """Return the pods for whose place nobody is evicted, so that they may go elsewhere."""
        return [pod for pod, kept in self._kept.items() if not kept.place.evicts]

    def keep(self, place: KeptPlace) -> None:
        """Count the devices of a place as used, and for the quotas of its namespace, in place of those before."""
        self.end(place.pod)
        held = self._kept.setdefault(place.pod, _Kept(place, {})).held
        for claim, allocation in place.allocations:
            holder = _holder(claim)
            held[holder] = self._counted(allocation)
            self._ledger.assume(holder, held[holder])
        self._quotas.keep(place.pod, place.given)

    def end(self, pod: str) -> KeptPlace | None:
        """Stop keeping the place of a pod, and return it."""
        kept = self._kept.pop(pod, None)
        if kept is None:
            return None
        for uid in kept.held:
            self._ledger.forget(uid)
        self._quotas.keep(pod, ())
        return kept.place

    @property
    def pods(self) -> Collection[str]:
        """The pods for which a place is kept."""
        return self._kept.keys()

    def counts_too_much(self, pod: str) -> bool:
        """Return whether whole cards count for the place of a pod, of which others may have the rest by now."""
        kept = self._kept.get(pod)
        if kept is None or list(kept.held.values()) == kept.place.given:
            return False
        with self._cluster.what_if() as trial:
            trial.remove(claims=kept.held)
            return any(self._counted(value) != kept.held[_holder(claim)] for claim, value in kept.place.allocations)

    def _counted(self, allocation: Allocation) -> Allocation:
        """Return the allocation as it counts: a share as its whole card, if others than shares hold the card.

        If a share of it counted beside these, the card would look as if it were shared already, and had room for
        further shares. So it does if others hold shares of a card that is kept as a whole or in part: then these
        shares count as the whole card, too.
        """
        results: list[Result] = []
        for result in allocation.results:
            if not result.share_id:
                shared = self._ledger.shared_beside(result.device)
                results += [result, *(replace(result, device=one) for one in shared)]
            elif self._ledger.has_only_shares(result.device):
                results.append(result)
            else:
                results.append(replace(result, share_id="", consumed={}))
        return replace(allocation, results=tuple(results))

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Count the devices of no kept place, on trial. Meanwhile no event may reach the cluster."""
        with self._cluster.what_if() as trial:
            for kept in self._kept.values():
                trial.remove(claims=kept.held)
            yield

    @contextmanager
    def open_to(self, pods: Collection[str], priority: int | None = None) -> Iterator[bool]:
        """Let the places go on trial that these pods may take: their own, and those for lower priorities.

        The quotas of a namespace know no priority: what is kept for others of theirs still counts for these.
        Yields whether there are any. Meanwhile no event may reach the cluster.

        Args:
            pods: a pod, or all members of a gang (keys).
            priority: the least of these; None for nothing but their own places.
        """
        mine = frozenset(pods) if self._kept else frozenset[str]()
        below = -math.inf if priority is None else priority
        opened = [kept for key, kept in self._kept.items() if key in mine or kept.place.priority < below]
        with self._cluster.what_if() as trial:
            for kept in opened:
                trial.remove([kept.place.pod], kept.held)
                if kept.place.pod in mine:
                    trial.keep_nothing_for(kept.place.pod)
            yield bool(opened)


def _holder(claim: Claim) -> str:
    """Return the name under which the devices count that are kept for the claim."""
    return f"what is kept for {claim.key}"
